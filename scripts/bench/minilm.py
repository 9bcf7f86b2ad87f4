"""Sentence-transformers over texts, one a line of standard input; the counterpart of `embed_lines`."""

import argparse
import json
import sys
import time

import torch
from sentence_transformers import SentenceTransformer

from report import print_rate

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--model", required=True)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--dtype", choices=["bfloat16", "float32"], default="float32")
parser.add_argument("--vectors", help="file for the vectors, one JSON array a line")
args = parser.parse_args()

torch.set_num_threads(args.threads)
texts = [line.rstrip("\n") for line in sys.stdin]
model = SentenceTransformer(args.model, device="cpu", model_kwargs={"dtype": getattr(torch, args.dtype)})
model.encode(texts[:32])
seconds = []
for _ in range(3):  # the best counts, as of `embed_lines`
    start = time.perf_counter()
    vectors = model.encode(texts, batch_size=32, normalize_embeddings=True, convert_to_tensor=True)
    seconds.append(time.perf_counter() - start)
print_rate(len(texts), min(seconds), "texts")
if args.vectors:
    with open(args.vectors, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(vector) + "\n" for vector in vectors.float().tolist())
