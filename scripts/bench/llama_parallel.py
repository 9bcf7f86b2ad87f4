"""Extraction through llama.cpp's own parallel decoding: many sequences in one batch, as its server does it.

Prompts share their common beginning in the cache. A token is first chosen without the grammar and only chosen again
under it if the grammar refuses it, as in llama.cpp's own sampler; the Python binding masks the vocabulary every time.
"""

import argparse
import ctypes
import json
import os
import time

import llama_cpp as api
import numpy as np
from llama_cpp.llama_chat_format import Jinja2ChatFormatter
from llama_cpp.llama_grammar import json_schema_to_gbnf

from llama import without_patterns
from report import print_rate

BATCH = 512


class Sequence:
    """Tokens of one sequence that wait to be read, and the position of the first."""

    def __init__(self, number, position, waiting):
        self.number, self.position, self.waiting = number, position, waiting


class Slot(Sequence):
    """A window's sequence: its prompt behind the shared beginning, then the tokens chosen one by one."""

    def __init__(self, number, vocab, request, shared):
        super().__init__(number, shared, request["tokens"][shared:])
        self.reply = []
        grammar = json_schema_to_gbnf(json.dumps(without_patterns(request["schema"])))
        self.grammar = api.llama_sampler_init_grammar(vocab, grammar.encode(), b"root")

    def allows(self, token):
        one = (api.llama_token_data * 1)(api.llama_token_data(token, 1.0, 0.0))
        api.llama_sampler_apply(self.grammar, ctypes.byref(api.llama_token_data_array(one, 1, -1, False)))
        return one[0].logit != -np.inf

    def choose(self, logits):
        token = int(logits.argmax())
        if not self.allows(token):
            table = np.zeros(len(logits), dtype=[("id", np.int32), ("logit", np.float32), ("p", np.float32)])
            table["id"], table["logit"] = np.arange(len(logits)), logits
            data = table.ctypes.data_as(ctypes.POINTER(api.llama_token_data))
            api.llama_sampler_apply(
                self.grammar, ctypes.byref(api.llama_token_data_array(data, len(logits), -1, False)))
            token = int(table["id"][table["logit"].argmax()])
        api.llama_sampler_accept(self.grammar, token)
        self.reply.append(token)
        self.waiting = [token]
        return token


def tokenized(llm, requests):
    template = Jinja2ChatFormatter(llm.metadata["tokenizer.chat_template"], "<|im_end|>", "")
    for request in requests:
        prompt = template(messages=request["messages"]).prompt
        request["tokens"] = llm.tokenize(prompt.encode(), add_bos=False, special=True)
    return requests


def fill(batch, slots):
    """One token of every slot that decodes, then as much of the waiting prompts as fits."""
    batch.n_tokens, outputs = 0, {}
    for slot in sorted(slots, key=lambda slot: len(slot.waiting)):
        taken = slot.waiting[:BATCH - batch.n_tokens]
        for token in taken:
            i = batch.n_tokens
            batch.token[i], batch.pos[i], batch.logits[i] = token, slot.position, False
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, slot.number
            slot.position += 1
            batch.n_tokens += 1
        slot.waiting = slot.waiting[len(taken):]
        if taken and not slot.waiting:
            batch.logits[batch.n_tokens - 1] = True
            outputs[slot] = batch.n_tokens - 1
    return outputs


def run(args):
    requests = [json.loads(line) for line in open(args.requests, encoding="utf-8")][:args.windows]
    llm = api.Llama(args.model, n_ctx=64, n_threads=args.threads, verbose=False)
    requests = tokenized(llm, requests)
    # All but the last token of the common beginning: every sequence must read at least one itself.
    shared = len(os.path.commonprefix([request["tokens"] for request in requests])) - 1
    longest = max(len(request["tokens"]) for request in requests) + args.max_new_tokens - shared
    params = api.llama_context_default_params()
    params.n_ctx = shared + args.streams * longest
    params.n_batch = params.n_ubatch = BATCH
    params.n_seq_max = args.streams + 1
    params.n_threads = params.n_threads_batch = args.threads
    params.kv_unified = True
    context = api.llama_init_from_model(llm.model, params)
    memory, vocab = api.llama_get_memory(context), api.llama_model_get_vocab(llm.model)
    size, end = llm.n_vocab(), llm.token_eos()
    batch = api.llama_batch_init(BATCH, 0, 1)

    def decode():
        status = api.llama_decode(context, batch)
        if status != 0:
            raise RuntimeError(f"llama_decode returned {status}: reduce --streams or --max-new-tokens")

    start = time.perf_counter()
    prefix = Sequence(args.streams, 0, requests[0]["tokens"][:shared])
    while prefix.waiting:
        fill(batch, [prefix])
        decode()
    queue, slots, replies = list(enumerate(requests)), {}, [None] * len(requests)
    while queue or slots:
        for number in set(range(args.streams)) - {slot.number for slot in slots}:
            if queue:
                window, request = queue.pop(0)
                api.llama_memory_seq_cp(memory, args.streams, number, 0, -1)
                slots[Slot(number, vocab, request, shared)] = window
        outputs = fill(batch, slots)
        decode()
        for slot, i in outputs.items():
            token = slot.choose(np.ctypeslib.as_array(api.llama_get_logits_ith(context, i), (size,)))
            if token == end or len(slot.reply) == args.max_new_tokens:
                replies[slots.pop(slot)] = slot.reply
                api.llama_memory_seq_rm(memory, slot.number, -1, -1)
                api.llama_sampler_free(slot.grammar)
    seconds = time.perf_counter() - start
    print_rate(len(requests), seconds, "windows", new_tokens=sum(map(len, replies)), streams=args.streams,
               prompt_tokens=sum(len(request["tokens"]) for request in requests),
               ended_by_themselves=sum(reply[-1] == end for reply in replies))
    if args.replies:
        with open(args.replies, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(llm.detokenize(reply).decode(errors="replace")) + "\n" for reply in replies)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--model", required=True)
parser.add_argument("--requests", required=True)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--streams", type=int, default=8)
parser.add_argument("--windows", type=int)
parser.add_argument("--max-new-tokens", type=int, default=4096)
parser.add_argument("--replies")
if __name__ == "__main__":
    run(parser.parse_args())
