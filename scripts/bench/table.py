"""Prints one table: our programs beside the peers, on the same work, in the same run, turn by turn.

Every repetition runs ours, then each peer once more; the table has medians of the rates and the highest of the peaks.
Called by scripts/bench-peers.sh, which sets up what is compared.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import machine
import rows


def measure(side, rate):
    """One run of a program: its JSON with `rate` in it. What went wrong is raised as RuntimeError."""
    if not Path(side.command[0]).exists():
        raise RuntimeError(f"{Path(side.command[0]).name} is not built")
    command = [str(part) for part in side.command]
    run = subprocess.run(command, input=side.stdin, capture_output=True, text=True)
    if run.returncode < 0:
        raise RuntimeError(f"killed by signal {-run.returncode}")
    try:
        result = json.loads(run.stdout[run.stdout.index("{"):])
    except ValueError:
        last = (run.stderr.strip().splitlines() or ["nothing was printed"])[-1]
        raise RuntimeError(f"exit code {run.returncode}: {last[:160]}") from None
    if rate == "windows_per_second" and rate not in result:  # the summary of memextract
        result[rate] = (result["windows"]["done"] + result["windows"]["failed"]) / result["seconds"]
    return result


class Figures:
    """Repetitions of one side of a row."""

    def __init__(self, side, row):
        self.side, self.row, self.results, self.problem = side, row, [], None

    def add(self):
        if self.problem:
            return
        try:
            result = measure(self.side, self.row.rate)
        except RuntimeError as error:
            self.problem = str(error)
            print(f"  {self.side.name}: {error}", file=sys.stderr)
            return
        self.results.append(result)
        print(f"  {self.side.name}: {result[self.row.rate] * self.row.scale:.2f} {self.row.unit}", file=sys.stderr)

    def rate(self):
        return self.row.scale * statistics.median(result[self.row.rate] for result in self.results)

    def shown(self):
        if not self.results:
            return f"– ({self.problem})"
        rates = [self.row.scale * result[self.row.rate] for result in self.results]
        spread = f" ({min(rates):.3g}–{max(rates):.3g})" if len(rates) > 1 else ""
        return f"{self.rate():.3g}{spread}"

    def memory(self):
        peaks = [result["peak_memory_bytes"] for result in self.results if result.get("peak_memory_bytes")]
        return f"{max(peaks) / 1e9:.2f}" if peaks else "–"

    def tokens(self):
        result = self.results[-1] if self.results else {}
        if "new_tokens" not in result:
            return ""
        seconds = result["seconds"]
        return f"{self.side.name}: {result['new_tokens']} new tokens, {result['new_tokens'] / seconds:.1f} a second"


def compare(row, repeat):
    """Lines of the table for one row, and notes below it."""
    print(f"{row.work}", file=sys.stderr)
    ours, peers = Figures(row.ours, row), [Figures(peer, row) for peer in row.peers]
    for _ in range(repeat):
        for figures in [ours, *peers]:
            figures.add()
    lines = []
    for peer in peers:
        ratio = f"{ours.rate() / peer.rate():.2f}" if ours.results and peer.results else "–"
        lines.append(f"| {row.work} | {row.unit} | {ours.shown()} | {peer.side.name} | {peer.shown()} | {ratio} | "
                     f"{ours.memory()} / {peer.memory()} |")
    if not peers:
        lines.append(f"| {row.work} | {row.unit} | {ours.shown()} | – | – | – | {ours.memory()} / – |")
    notes = [text for text in (figures.tokens() for figures in [ours, *peers]) if text]
    return lines, notes + [note for result in ours.results for note in result.get("notes", [])]


def cosine(scratch):
    """How far our vectors are from those of sentence-transformers in f32."""
    notes = []
    theirs = vectors(scratch / "f32")
    for name, file in (("f32", "ours"), ("bf16", "ours-bf16")):
        ours = vectors(scratch / file)
        if ours is None or theirs is None:
            continue
        cosines = (ours * theirs).sum(1) / np.linalg.norm(ours, axis=1) / np.linalg.norm(theirs, axis=1)
        notes.append(f"cosine of memloom in {name} to sentence-transformers in f32: mean {cosines.mean():.7f}, "
                     f"lowest {cosines.min():.7f}")
    return notes


def vectors(file):
    if not file.exists():
        return None
    return np.array([json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()])


def left_out(groups, why):
    """The line of rows that cannot be measured."""
    return f"| {', '.join(groups)} | – | – ({why}) | – | – | – | – |"


def limits(threads):
    run = subprocess.run(rows.python("limits.py", "--threads", threads), capture_output=True, text=True, check=True)
    result = json.loads(run.stdout)
    return [f"- limits: memory read {result['memory_read_gb_per_second']:.0f} GB/s; matrix products at model shapes "
            f"{result['f32_gflops']:.0f} GFLOP/s in f32, {result['bf16_gflops']:.0f} in bf16 (torch)"]


def main(args):
    wanted = args.only.split(",")
    unknown = set(wanted) - set(rows.GROUPS) - {"limits"}
    if unknown:
        sys.exit(f"error: there are no rows called {', '.join(sorted(unknown))}: choose from limits, {', '.join(rows.GROUPS)}")
    lines, notes = machine.describe(args.threads), []
    if "limits" in wanted:
        lines += limits(args.threads)
    lines += [f"- {args.repeat} interleaved repetitions: medians (lowest–highest), ratio ours / theirs, peak resident "
              "memory in GB ours / theirs", "",
              "| work | unit | memloom | peer | theirs | ratio | memory |", "|---|---|---:|---|---:|---:|---:|"]
    for make in dict.fromkeys(rows.GROUPS.values()):
        groups = [group for group in wanted if rows.GROUPS.get(group) is make]
        if not groups:
            continue
        try:
            for row in make(args):
                if row.group in groups:
                    added, more = compare(row, 1 if row.group in ("extract", "growth") else args.repeat)
                    lines, notes = lines + added, notes + more
        except FileNotFoundError as error:
            lines.append(left_out(groups, f"there is no {error.filename}"))
        except subprocess.CalledProcessError as error:
            lines.append(left_out(groups, " ".join(error.stderr.split())[:200] or error))
    if "embed" in wanted:
        notes += cosine(args.scratch)
    print("\n".join(lines))
    if notes:
        print("\n" + "\n".join(f"- {note}" for note in notes))
    print(f"\nload at the end: {os.getloadavg()[0]:.1f}")


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--only", default=",".join(rows.DEFAULT), help="rows, separated by commas")
parser.add_argument("--repeat", type=int, default=3)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--sessions", default="1-5", help="sessions of LoCoMo conv-26 to extract from; `1-` is all")
parser.add_argument("--max-new-tokens", type=int, default=1500)
parser.add_argument("--programs", type=Path, required=True, help="folder of our release build")
parser.add_argument("--gguf", required=True)
parser.add_argument("--embedder", required=True)
parser.add_argument("--locomo", required=True)
if __name__ == "__main__":
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        args.scratch = Path(scratch)
        main(args)
