"""llama.cpp through llama-cpp-python on the work of `engine_bench`: prefill, decode, and replies under a JSON schema."""

import argparse
import json
import sys
import time

from llama_cpp import Llama
from llama_cpp.llama_grammar import json_schema_to_gbnf

from report import print_rate


def load(args, context):
    """The binding as its users load it, except that all threads are used: it takes half of the cores by itself."""
    return Llama(args.model, n_ctx=context, n_threads=args.threads, n_threads_batch=args.threads,
                 flash_attn=args.flash_attention, seed=1, verbose=False)


def some_tokens(llm, count):
    text = "The quick brown fox jumps over the lazy dog while seven wizards watch from the old stone bridge. "
    tokens = llm.tokenize((text * (count // 10 + 1)).encode())
    return tokens[:count]


def prefill(args):
    llm = load(args, args.tokens + 16)
    tokens = some_tokens(llm, args.tokens)
    seconds = []
    for _ in range(args.repeat + 1):
        llm.reset()
        start = time.perf_counter()
        llm.eval(tokens)
        seconds.append(time.perf_counter() - start)
    print_rate(len(tokens), min(seconds), repetitions=seconds)


def decode(args):
    llm = load(args, args.prompt + args.tokens + 16)
    tokens = some_tokens(llm, args.prompt + args.tokens)
    llm.eval(tokens[:args.prompt])
    start = time.perf_counter()
    for token in tokens[args.prompt:]:  # without the binding's sampler, to time llama.cpp alone
        llm.eval([token])
    print_rate(args.tokens, time.perf_counter() - start)


def without_patterns(schema):
    """The schema with plain strings for texts under a regular expression: the binding's grammar has no `\\s`."""
    if isinstance(schema, list):
        return [without_patterns(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: without_patterns(part) for key, part in schema.items() if key not in ("pattern", "x-guidance")}


def extract(args):
    requests = [json.loads(line) for line in open(args.requests, encoding="utf-8")][:args.windows]
    llm = load(args, args.context)
    windows, prompt_tokens, new_tokens, whole = [], 0, 0, 0
    for request in requests:
        schema = without_patterns(request["schema"])
        # The binding takes any JSON, without a word, where it cannot translate the schema: here that is an error.
        json_schema_to_gbnf(json.dumps(schema))
        start = time.perf_counter()
        reply = llm.create_chat_completion(
            request["messages"], response_format={"type": "json_object", "schema": schema},
            temperature=0, max_tokens=args.max_new_tokens)
        windows.append(time.perf_counter() - start)
        prompt_tokens += reply["usage"]["prompt_tokens"]
        new_tokens += reply["usage"]["completion_tokens"]
        whole += reply["choices"][0]["finish_reason"] == "stop"
        print(f"window {len(windows)}: {windows[-1]:.1f} s, {reply['usage']}", file=sys.stderr)
        if args.replies:
            with open(args.replies, "a", encoding="utf-8") as file:
                file.write(json.dumps(reply["choices"][0]["message"]["content"]) + "\n")
    print_rate(len(windows), sum(windows), "windows", prompt_tokens=prompt_tokens, new_tokens=new_tokens,
               ended_by_themselves=whole, window_seconds=windows)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--model", required=True)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--flash-attention", action="store_true")
works = parser.add_subparsers(required=True)
work = works.add_parser("prefill")
work.set_defaults(run=prefill)
work.add_argument("--tokens", type=int, default=512)
work.add_argument("--repeat", type=int, default=3)
work = works.add_parser("decode")
work.set_defaults(run=decode)
work.add_argument("--prompt", type=int, default=32)
work.add_argument("--tokens", type=int, default=128)
work = works.add_parser("extract")
work.set_defaults(run=extract)
work.add_argument("--requests", required=True)
work.add_argument("--windows", type=int)
work.add_argument("--context", type=int, default=8192)
work.add_argument("--max-new-tokens", type=int, default=4096)
work.add_argument("--replies")
if __name__ == "__main__":
    args = parser.parse_args()
    args.run(args)
