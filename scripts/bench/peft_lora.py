"""Steps of a LoRA fine-tune through PEFT: r = 16 on the seven projections of a model shaped like Qwen2.5-0.5B.

The weights are random, which changes no work: speed and memory depend on shapes alone. The first step is left out.
"""

import argparse
import time

import torch
from peft import LoraConfig, get_peft_model
from transformers import Qwen2Config, Qwen2ForCausalLM

from report import print_rate

PROJECTIONS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--tokens", type=int, default=512)
parser.add_argument("--steps", type=int, default=4)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--dtype", choices=["bfloat16", "float32"], default="bfloat16")
parser.add_argument("--checkpointing", action="store_true")
args = parser.parse_args()

torch.set_num_threads(args.threads)
torch.manual_seed(1)
config = Qwen2Config(
    vocab_size=151936, hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14,
    num_key_value_heads=2, rope_theta=1e6, max_position_embeddings=32768, tie_word_embeddings=True, use_cache=False)
torch.set_default_dtype(getattr(torch, args.dtype))
model = Qwen2ForCausalLM(config)
if args.checkpointing:
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.enable_input_require_grads()
model = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, target_modules=PROJECTIONS, task_type="CAUSAL_LM"))
model.train()
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4)
ids = torch.randint(0, config.vocab_size, (1, args.tokens))


def step():
    start = time.perf_counter()
    model(input_ids=ids, labels=ids).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return time.perf_counter() - start


step()
seconds = [step() for _ in range(args.steps - 1)]
print_rate(args.tokens * len(seconds), sum(seconds), step_seconds=seconds)
