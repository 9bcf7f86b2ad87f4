"""Our `embed_lines` with the command line and the line of JSON that `minilm.py` has."""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("program")
parser.add_argument("--model", required=True)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--vectors", help="file for the vectors, one JSON array a line")
parser.add_argument("--bf16", action="store_true")
args = parser.parse_args()

if not Path(args.program).exists():
    sys.exit(f"{Path(args.program).name} is not built")
command = [args.program, args.model] + ["--vectors"] * bool(args.vectors) + ["--bf16"] * args.bf16 + ["--repeat", "3"]
run = subprocess.run(command, stdin=sys.stdin, capture_output=True, text=True,
                     env=os.environ | {"RAYON_NUM_THREADS": str(args.threads)})
if run.returncode != 0:
    sys.exit(run.stderr)
if args.vectors:
    with open(args.vectors, "w", encoding="utf-8") as file:
        file.write(run.stdout)
report = json.loads(run.stderr.strip().splitlines()[-1])
print(json.dumps({"texts": report["sentences"], "seconds": min(report["embed_secs"]),
                  "texts_per_second": report["sentences_per_sec"], "peak_memory_bytes": report["peak_memory_bytes"]}))
