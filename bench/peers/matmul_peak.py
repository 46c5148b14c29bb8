#!/usr/bin/env python3
"""Prints the best rate of a 1024-cubed matrix product as JSON, in GFLOP/s: the bound of bench/throughput.

fp32 is the better of PyTorch's BLAS and of oneDNN; bf16 is oneDNN.
"""

import argparse
import json
import time

import torch
import torch.nn.functional as F

SIZE = 1024


def best_gflops(multiply, seconds: float) -> float:
    multiply()
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        multiply()
        best = min(best, time.perf_counter() - start)
    return 2 * SIZE**3 / best / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.5, help="for each of the three products")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    with torch.no_grad():
        a, b = torch.randn(SIZE, SIZE), torch.randn(SIZE, SIZE)
        out = torch.empty(SIZE, SIZE)
        a16, b16, out16 = a.bfloat16(), b.bfloat16(), out.bfloat16()
        a_dnn, b_dnn = a.to_mkldnn(), b.to_mkldnn()
        blas = best_gflops(lambda: torch.mm(a, b, out=out), args.seconds)
        onednn = best_gflops(lambda: F.linear(a_dnn, b_dnn), args.seconds)
        bf16 = best_gflops(lambda: torch.mm(a16, b16, out=out16), args.seconds)
    print(json.dumps({"fp32": max(blas, onednn), "bf16": bf16, "torch": torch.__version__}))


if __name__ == "__main__":
    main()
