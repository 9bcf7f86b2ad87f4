"""Shapes of models as `config.json` states them, and folders of random models that have them.

Called as a program: shapes.py SHAPE FOLDER. Needs nothing but Python.
"""

import json
import random
import shutil
import sys
from array import array
from pathlib import Path

TOKENIZER = Path(__file__).parents[2] / "crates/model/tests/fixtures/tiny-qwen2"


def shape(family, vocab, hidden, inner, layers, heads, kv_heads, head_dim):
    return {"model_type": family, "vocab_size": vocab, "hidden_size": hidden, "intermediate_size": inner,
            "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv_heads,
            "head_dim": head_dim, "max_position_embeddings": 32768, "rope_theta": 1e6, "rms_norm_eps": 1e-6,
            "tie_word_embeddings": True}


SHAPES = {
    "tiny": shape("qwen2", 1024, 64, 128, 2, 4, 2, 16),
    "qwen2.5-0.5b": shape("qwen2", 151936, 896, 4864, 24, 14, 2, 64),
    "qwen3-4b": shape("qwen3", 151936, 2560, 9728, 36, 32, 8, 128),
}


def tensors(c):
    """Names and dimensions, in the order of the file."""
    hidden, inner, width = c["hidden_size"], c["intermediate_size"], c["head_dim"]
    q, kv = c["num_attention_heads"] * width, c["num_key_value_heads"] * width
    yield "model.embed_tokens.weight", [c["vocab_size"], hidden]
    for layer in range(c["num_hidden_layers"]):
        block = f"model.layers.{layer}."
        for name, rows, cols in [("self_attn.q", q, hidden), ("self_attn.k", kv, hidden), ("self_attn.v", kv, hidden),
                                 ("self_attn.o", hidden, q), ("mlp.gate", inner, hidden), ("mlp.up", inner, hidden),
                                 ("mlp.down", hidden, inner)]:
            yield f"{block}{name}_proj.weight", [rows, cols]
            if c["model_type"] == "qwen2" and name[-1] in "qkv":
                yield f"{block}{name}_proj.bias", [rows]
        if c["model_type"] == "qwen3":
            yield f"{block}self_attn.q_norm.weight", [width]
            yield f"{block}self_attn.k_norm.weight", [width]
        yield f"{block}input_layernorm.weight", [hidden]
        yield f"{block}post_attention_layernorm.weight", [hidden]
    yield "model.norm.weight", [hidden]


def write(name, folder):
    """A folder with a random bf16 model, and a small tokenizer, since a model needs one."""
    folder.mkdir(parents=True, exist_ok=True)
    config = SHAPES[name]
    header, start, counts = {"__metadata__": {"format": "pt"}}, 0, []
    for tensor, dims in tensors(config):
        count = dims[0] * (dims[1] if len(dims) > 1 else 1)
        header[tensor] = {"dtype": "BF16", "shape": dims, "data_offsets": [start, start + 2 * count]}
        start += 2 * count
        counts.append((tensor, count))
    # The upper halves of floats are bf16. A prime number of them repeats, so that no two rows are equal.
    draw = random.Random(1)
    values = array("f", (draw.gauss(0, 0.02) for _ in range(499_979)))
    block = array("H", memoryview(values).cast("B").cast("H")[1::2]).tobytes()
    ones = array("H", [0x3F80]).tobytes()
    file = folder / "model.safetensors"
    with open(file.with_suffix(".part"), "wb") as out:
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        out.write(len(text).to_bytes(8, "little") + text)
        for tensor, count in counts:
            content = ones * count if "norm" in tensor else block
            for _ in range(2 * count // len(content)):
                out.write(content)
            out.write(content[:2 * count % len(content)])
    file.with_suffix(".part").rename(file)
    for part in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        shutil.copyfile(TOKENIZER / part, folder / part)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


if __name__ == "__main__":
    write(sys.argv[1], Path(sys.argv[2]))
