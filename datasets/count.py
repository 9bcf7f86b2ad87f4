#!/usr/bin/env python3
"""Counts the scenarios by language and kind, and by part, as the table of README.md. Usage: python3 datasets/count.py"""
import json
from collections import Counter
from pathlib import Path


def is_dev(scenario_id):
    """The rule of README.md; `Split::of` in crates/schema/src/scenario.rs is the same."""
    value = 0xCBF29CE484222325
    for byte in scenario_id.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return (value >> 32) % 100 < 15


COLUMNS = ["dialogue", "assistant", "train", "dev", "sessions", "turns", "records", "questions"]
rows = {}
for file in sorted((Path(__file__).parent / "scenarios").glob("*.json")):
    scenario = json.loads(file.read_text(encoding="utf-8"))
    counts = Counter({
        scenario["kind"]: 1,
        "dev" if is_dev(scenario["scenario_id"]) else "train": 1,
        "sessions": len(scenario["sessions"]),
        "turns": sum(len(session["turns"]) for session in scenario["sessions"]),
        "records": len(scenario["records"]),
        "questions": len(scenario["questions"]),
    })
    for row in (scenario["language"], "all"):
        rows.setdefault(row, Counter()).update(counts)

print("| language | " + " | ".join(COLUMNS) + " |")
print("|---|" + "---:|" * len(COLUMNS))
for language, counts in sorted(rows.items(), key=lambda row: (row[0] == "all", -row[1]["turns"])):
    print(f"| {language} | " + " | ".join(str(counts[column]) for column in COLUMNS) + " |")
