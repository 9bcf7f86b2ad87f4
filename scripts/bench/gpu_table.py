"""Prints one table of speeds on a GPU: ours beside transformers and PEFT, the same shapes with random weights.

Memory is what the card holds more than before, as nvidia-smi tells it ten times a second; on a CPU, each process's own.
Called by scripts/gpu-check.sh, which builds what is compared.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import shapes

HERE = Path(__file__).parent


def card_memory():
    """MiB in use on the first card; none where nvidia-smi does not tell."""
    if not shutil.which("nvidia-smi"):
        return None
    run = subprocess.run(["nvidia-smi", "--id=0", "--query-gpu=memory.used", "--format=csv,noheader,nounits"],
                         capture_output=True, text=True)
    return int(run.stdout) if run.returncode == 0 and run.stdout.strip().isdigit() else None


class Watch(threading.Thread):
    """The most that the card holds while it runs."""

    def __init__(self):
        super().__init__(daemon=True)
        self.before = self.peak = card_memory()
        self.done = threading.Event()

    def run(self):
        while self.before is not None and not self.done.wait(0.1):
            self.peak = max(self.peak, card_memory() or 0)

    def gigabytes(self):
        self.done.set()
        self.join()
        return None if self.before is None else (self.peak - self.before) * 2**20 / 1e9


def measure(command, device, seconds, libraries=""):
    """The JSON line of a program, or why there is none. Each program gets the time that is left, and no more than that."""
    if seconds < 5:
        return "no time left"
    path = ":".join(filter(None, [libraries, os.environ.get("LD_LIBRARY_PATH")]))
    watch = Watch() if device == "cuda" else None
    if watch:
        watch.start()
    try:
        run = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=seconds,
                             env=os.environ | {"LD_LIBRARY_PATH": path} if libraries else None)
    except subprocess.TimeoutExpired:
        return f"not done after {seconds:.0f} s"
    finally:
        memory = watch.gigabytes() if watch else None
    try:
        result = json.loads(run.stdout[run.stdout.index("{"):])
    except ValueError:
        said = run.stderr.strip().splitlines() or ["nothing was printed"]
        problem = next((line for line in said if "rror:" in line), said[-1])
        return f"exit code {run.returncode}: {problem[:160]}"
    result["memory"] = memory if watch else result["peak_memory_bytes"] / 1e9
    return result


def median_rate(result, work):
    """Tokens a second, of the median repetition where there are several."""
    if work == "prompts":
        return result["prompt_tokens"] / statistics.median(result["prompt_seconds"])
    repetitions = result.get("repetitions", [result["seconds"]])
    return result["tokens"] / len(repetitions) / statistics.median(repetitions)


def shown(result, work):
    return f"– ({result})" if isinstance(result, str) else f"{median_rate(result, work):.0f}"


def memory(result):
    return "–" if isinstance(result, str) or result["memory"] is None else f"{result['memory']:.2f}"


def lines(title, ours, name, theirs, works):
    for work in works:
        both = not isinstance(ours, str) and not isinstance(theirs, str)
        ratio = f"{median_rate(ours, work) / median_rate(theirs, work):.2f}" if both else "–"
        name_of_work = f"{title}, {work}" if len(works) > 1 else title
        yield (f"| {name_of_work} | {shown(ours, work)} | {name} | {shown(theirs, work)} | {ratio} | "
               f"{memory(ours)} / {memory(theirs)} |")


def torch_problem(python):
    run = subprocess.run([python, "-c", "import torch, transformers, peft"], capture_output=True, text=True)
    return None if run.returncode == 0 else (run.stderr.strip().splitlines() or ["it does not start"])[-1]


def machine(python, torch, device):
    if device == "cuda" and shutil.which("nvidia-smi"):
        run = subprocess.run(["nvidia-smi", "--id=0", "--query-gpu=name,driver_version,memory.total",
                              "--format=csv,noheader"], capture_output=True, text=True)
        yield f"- {time.strftime('%Y-%m-%d %H:%M')}, {run.stdout.strip()}"
    if torch is None:
        code = "import torch, transformers, peft; print('- torch', torch.__version__ + ', transformers', " \
               "transformers.__version__ + ', peft', peft.__version__)"
        yield subprocess.run([python, "-c", code], capture_output=True, text=True).stdout.strip()
    else:
        yield f"- no peer: {python} has not what it takes ({torch})"


def main(args):
    end = time.monotonic() + args.seconds
    torch = torch_problem(args.python)
    if torch:
        print(f"  note: {args.python} cannot import torch, transformers and peft ({torch}): our side alone", file=sys.stderr)
    types = "bf16" if args.device == "cuda" else "f32 ours, bf16 theirs"
    table = [*machine(args.python, torch, args.device), f"- random weights, {types}; LoRA r = 16 on seven projections, every "
             f"token supervised; replies of {args.new_tokens} tokens to prompts of {args.prompt}; tokens/s, median of "
             "the repetitions; peak memory in GB ours / theirs", "",
             "| work | memloom | peer | theirs | ratio | memory |", "|---|---:|---|---:|---:|---:|"]
    dtype = {"cuda": [], "cpu": ["--dtype", "f32"]}[args.device]
    with tempfile.TemporaryDirectory() as scratch:
        for shape in args.shapes.split(","):
            folder = Path(scratch) / shape
            print(f"  {shape}: random model", file=sys.stderr)
            shapes.write(shape, folder)
            bench = [args.programs / "examples/engine_bench", "--model", folder, "--device", args.device, *dtype]
            peer = [args.python, "-W", "ignore", HERE / "torch_peers.py", "--shape", shape, "--device", args.device]
            rows = [("LoRA, %d tokens a step" % tokens, ["training"], ["lora", "--tokens", tokens, "--steps", args.steps],
                     [("PEFT", []), ("PEFT, gradient checkpointing", ["--checkpointing"])])
                    for tokens in args.lora_tokens]
            rows += [("%d row%s" % (count, "s" * (count > 1)), ["prompts", "decoding"],
                      ["generate", "--prompt", args.prompt, "--tokens", args.new_tokens, "--rows", count, "--repeat",
                       args.repeat], [("transformers", [])]) for count in args.rows]
            for title, works, work, peers in rows:
                ours = measure([*bench, *work], args.device, end - time.monotonic(), args.libraries)
                print(f"  {shape}, {title}: ours {shown(ours, works[-1])} tokens/s", file=sys.stderr)
                for name, more in peers:
                    theirs = "not here" if torch else measure([*peer, *work, *more], args.device, end - time.monotonic())
                    print(f"  {shape}, {title}: {name} {shown(theirs, works[-1])} tokens/s", file=sys.stderr)
                    table += lines(f"{shape}, {title}", ours, name, theirs, works)
            shutil.rmtree(folder)
    print("\n".join(table))


def numbers(text):
    return [int(part) for part in text.split(",") if part]


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--programs", type=Path, required=True, help="folder of our release build")
parser.add_argument("--libraries", default="", help="where our programs find CUDA's libraries")
parser.add_argument("--python", default=sys.executable, help="the one that has torch, transformers and peft")
parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
parser.add_argument("--shapes", default="qwen2.5-0.5b,qwen3-4b", help="of " + ", ".join(shapes.SHAPES))
parser.add_argument("--lora-tokens", type=numbers, default=[512, 1024])
parser.add_argument("--steps", type=int, default=8)
parser.add_argument("--rows", type=numbers, default=[1, 16, 64])
parser.add_argument("--prompt", type=int, default=1024)
parser.add_argument("--new-tokens", type=int, default=128)
parser.add_argument("--repeat", type=int, default=2)
parser.add_argument("--seconds", type=float, default=360, help="what does not fit into so much time is left out")
if __name__ == "__main__":
    main(parser.parse_args())
