"""transformers and PEFT on the work of `engine_bench`: LoRA steps, and batched replies of a given length.

The weights are random, which changes no work: speed and memory depend on shapes alone. A first step is left out.
"""

import argparse
import time

import torch
import transformers

from report import print_rate
from shapes import SHAPES

PROJECTIONS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def build(args):
    shape = dict(SHAPES[args.shape])
    family = {"qwen2": transformers.Qwen2ForCausalLM, "qwen3": transformers.Qwen3ForCausalLM}[shape.pop("model_type")]
    torch.manual_seed(1)
    torch.set_default_dtype(getattr(torch, args.dtype))
    with torch.device(args.device):
        return family(family.config_class(**shape))


def wait(args):
    if args.device == "cuda":
        torch.cuda.synchronize()


def timed(args, work):
    wait(args)
    start = time.perf_counter()
    work()
    wait(args)
    return time.perf_counter() - start


def lora(args):
    from peft import LoraConfig, get_peft_model

    model = build(args)
    if args.checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        model.enable_input_require_grads()
    model = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, target_modules=PROJECTIONS, task_type="CAUSAL_LM"))
    model.train()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4)
    ids = torch.randint(0, model.config.vocab_size, (1, args.tokens), device=args.device)

    def step():
        model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    step()
    seconds = [timed(args, step) for _ in range(args.steps)]
    print_rate(args.tokens * len(seconds), sum(seconds), repetitions=seconds)


@torch.inference_mode()
def generate(args):
    """Replies of exactly `tokens` tokens. The temperature makes all tokens about equally likely, as a random model
    would else repeat itself."""
    model = build(args).eval()
    model.generation_config.eos_token_id = None
    ids = torch.randint(0, model.config.vocab_size, (args.rows, args.prompt), device=args.device)

    def reply(tokens):
        model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, min_new_tokens=tokens,
                       do_sample=True, temperature=100.0, top_k=0, pad_token_id=0)

    reply(4)
    prompts, whole = [], []
    for _ in range(args.repeat):
        prompts.append(timed(args, lambda: reply(1)))
        whole.append(timed(args, lambda: reply(args.tokens)))
    seconds = [max(all - first, 1e-9) for all, first in zip(whole, prompts)]
    print_rate(args.rows * (args.tokens - 1) * args.repeat, sum(seconds), repetitions=seconds, prompt_seconds=prompts,
               prompt_tokens=args.rows * args.prompt)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--shape", choices=SHAPES, required=True)
parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
parser.add_argument("--dtype", choices=["bfloat16", "float32"], default="bfloat16")
parser.add_argument("--threads", type=int, help="of a processor; all without it")
works = parser.add_subparsers(required=True)
work = works.add_parser("lora")
work.set_defaults(run=lora)
work.add_argument("--tokens", type=int, default=512)
work.add_argument("--steps", type=int, default=4)
work.add_argument("--checkpointing", action="store_true")
work = works.add_parser("generate")
work.set_defaults(run=generate)
work.add_argument("--prompt", type=int, default=1024)
work.add_argument("--tokens", type=int, default=128)
work.add_argument("--rows", type=int, default=1)
work.add_argument("--repeat", type=int, default=3)
if __name__ == "__main__":
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    args.run(args)
