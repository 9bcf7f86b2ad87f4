"""What the machine itself can do, measured through torch: reading memory, and matrix products at the model's shapes."""

import argparse
import json
import statistics
import time

import torch

# Rows of input, outputs and inputs of the projections of a 0.5B Qwen2.5.
SHAPES = [(512, 896, 896), (512, 4864, 896), (512, 896, 4864), (2048, 4864, 896)]

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--threads", type=int, default=2)
args = parser.parse_args()
torch.set_num_threads(args.threads)


def fastest(work, repetitions=7):
    work()
    seconds = []
    for _ in range(repetitions):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def matmul_gflops(dtype):
    rates = []
    for rows, outputs, inputs in SHAPES:
        x, w = torch.randn(rows, inputs).to(dtype), torch.randn(outputs, inputs).to(dtype)
        rates.append(2e-9 * rows * outputs * inputs / fastest(lambda: torch.nn.functional.linear(x, w)))
    return statistics.median(rates)


table = torch.ones(256 << 20)  # 1 GiB, far beyond any cache
print(json.dumps({
    "memory_read_gb_per_second": table.nbytes / fastest(table.sum) / 1e9,
    "f32_gflops": matmul_gflops(torch.float32),
    "bf16_gflops": matmul_gflops(torch.bfloat16),
}))
