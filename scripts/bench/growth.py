"""Runs an extraction and prints how its pace and memory change: seconds a window over equal stretches of the run.

usage: growth.py MEMEXTRACT ARGUMENT…    (with --json; its progress lines are read as they come)
"""

import json
import re
import subprocess
import sys
import time

DONE = re.compile(r"\[(\d+)/\d+\]")
STRETCH = 40


def resident_bytes(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS:"))


def main(command):
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    marks = []  # (windows done, seconds, bytes)
    start = time.monotonic()
    for line in run.stderr:
        found = DONE.match(line)
        if found and (windows := int(found[1])) % STRETCH == STRETCH // 2:
            marks.append((windows, time.monotonic() - start, resident_bytes(run.pid)))
        elif not found:
            sys.stderr.write(line)
    # The exit code does not count: with short replies every window fails, which is 2.
    result = json.loads(run.stdout.read())
    run.wait()
    windows = result["windows"]["done"] + result["windows"]["failed"]
    result["windows_per_second"] = windows / result["seconds"]
    result["notes"] = [
        f"windows {first[0]} to {last[0]}: {(last[1] - first[1]) / (last[0] - first[0]):.2f} s a window, "
        f"{last[2] / 1e9:.2f} GB" for first, last in zip(marks, marks[1:])]
    print(json.dumps(result))


main(sys.argv[1:])
