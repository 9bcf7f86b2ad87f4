"""The rows of the table: what is measured, by which command of ours and by which commands of the peers."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent


@dataclass
class Side:
    """One program's part of a row; it prints one line of JSON."""

    name: str
    command: list
    stdin: str = ""


@dataclass
class Row:
    """One piece of work. `rate` is the key of the measured JSON, `scale` what makes the `unit` of it."""

    group: str
    work: str
    rate: str
    unit: str
    ours: Side
    peers: list
    scale: float = 1.0


def python(script, *arguments):
    return [sys.executable, "-W", "ignore", str(HERE / script), *map(str, arguments)]


def prefill_and_decode(args):
    bench, threads = args.programs / "examples/engine_bench", ["--threads", args.threads]
    llama = ["--model", args.gguf, *threads]
    for tokens in (512, 2048):
        work = ["prefill", "--tokens", tokens]
        yield Row("prefill", f"prefill, {tokens} tokens", "tokens_per_second", "tokens/s",
                  Side("memloom", [bench, "--model", args.gguf, *threads, *work]),
                  [Side("llama.cpp", python("llama.py", *llama, *work)),
                   Side("llama.cpp, flash attention", python("llama.py", *llama, "--flash-attention", *work))])
    work = ["decode", "--prompt", 32, "--tokens", 128]
    yield Row("decode", "decode, 128 tokens after 32", "tokens_per_second", "tokens/s",
              Side("memloom", [bench, "--model", args.gguf, *threads, *work]),
              [Side("llama.cpp", python("llama.py", *llama, *work))])


def lora(args):
    bench = args.programs / "examples/engine_bench"
    for tokens in (512, 1024):
        work = ["--tokens", tokens, "--steps", 4]
        peft = python("torch_peers.py", "--shape", "qwen2.5-0.5b", "--device", "cpu", "--threads", args.threads, "lora",
                      *work)
        yield Row("lora", f"LoRA r=16, {tokens} tokens a step", "tokens_per_second", "tokens/s",
                  Side("memloom", [bench, "--model", args.gguf, "--threads", args.threads, "lora", *work]),
                  [Side("PEFT bf16", peft), Side("PEFT bf16, gradient checkpointing", [*peft, "--checkpointing"])])


def embed(args):
    texts = locomo_turns(args.locomo, 1000)
    model = ["--model", args.embedder, "--threads", args.threads]
    ours = python("embed_lines.py", args.programs / "examples/embed_lines", *model)
    peer = python("minilm.py", *model)
    yield Row("embed", "MiniLM, 1,000 LoCoMo turns, f32", "texts_per_second", "texts/s",
              Side("memloom", [*ours, "--vectors", args.scratch / "ours"], texts),
              [Side("sentence-transformers f32", [*peer, "--vectors", args.scratch / "f32"], texts)])
    yield Row("embed", "MiniLM, 1,000 LoCoMo turns, bf16", "texts_per_second", "texts/s",
              Side("memloom", [*ours, "--bf16", "--vectors", args.scratch / "ours-bf16"], texts),
              [Side("sentence-transformers bf16", [*peer, "--dtype", "bfloat16"], texts)])


def extract(args):
    """The same windows, instruction, schema and longest reply for all; the binding gets plain strings for patterns."""
    selection = [args.locomo, "--transcript", "conv-26", "--sessions", args.sessions]
    bound = ["--max-new-tokens", args.max_new_tokens]
    shown = [json.loads(line) for line in
             output([args.programs / "memextract", "windows", *selection, "--json"]).splitlines()]
    requests = [json.dumps({"messages": window["prompt"], "schema": window["schema"]}) for window in shown]
    windows = len(requests)
    file = args.scratch / "requests.jsonl"
    file.write_text("\n".join(requests) + "\n", encoding="utf-8")
    peer = ["--model", args.gguf, "--threads", args.threads]
    yield Row("extract", f"extraction, {windows} windows of LoCoMo conv-26", "windows_per_second", "windows/min",
              Side("memloom", [args.programs / "memextract", *selection, *bound, "--model", args.gguf, "--threads",
                               args.threads, "--json", "--out", args.scratch / "records.jsonl"]),
              [Side("llama-cpp-python, one after another, strings without patterns",
                    python("llama.py", *peer, "extract", "--requests", file, *bound)),
               Side("llama.cpp, 8 sequences at once, strings without patterns",
                    python("llama_parallel.py", *peer, "--requests", file, *bound))], scale=60.0)


def growth(args):
    """Ours alone: what a window takes as a run gets longer. Replies are kept short, as only the ratio counts."""
    names = [conversation["sample_id"] for conversation in locomo(args.locomo)[:6]]
    transcripts = [part for name in names for part in ("--transcript", name)]
    yield Row("growth", f"extraction, {len(names)} conversations, replies of 48 tokens", "windows_per_second", "windows/min",
              Side("memloom", python("growth.py", args.programs / "memextract", args.locomo, *transcripts, "--model",
                                     args.gguf, "--threads", args.threads, "--max-new-tokens", 48, "--json", "--out",
                                     args.scratch / "growth.jsonl")), [], scale=60.0)


# In the order of the table. Growth takes long and is measured only when asked for.
GROUPS = {"prefill": prefill_and_decode, "decode": prefill_and_decode, "extract": extract, "lora": lora,
          "embed": embed, "growth": growth}
DEFAULT = ["limits", "prefill", "decode", "extract", "lora", "embed"]


def output(command):
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout


def locomo(file):
    return json.loads(Path(file).read_text(encoding="utf-8"))


def locomo_turns(file, count):
    """The first turns of LoCoMo as `speaker: text`, one a line."""
    turns = []
    for conversation in locomo(file):
        sessions, number = conversation["conversation"], 1
        while f"session_{number}" in sessions:
            turns += [" ".join(f"{turn['speaker']}: {turn['text']}".split()) for turn in sessions[f"session_{number}"]]
            number += 1
    return "\n".join(turns[:count]) + "\n"
