#!/usr/bin/env python3
"""Trains the benchmark's GPT with PyTorch and prints one JSON object per step: step, tokens, ms, loss.

--dp 1: eager. --dp N: N processes over gloo with DistributedDataParallel and ZeroRedundancyOptimizer.
Started by bench/throughput, which makes the virtual environment that this needs.
"""

import argparse
import contextlib
import json
import os
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from gpt import GPT, parameter_groups


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num-layers", type=int, default=12)
    parser.add_argument("--hidden-size", type=int, default=768)
    parser.add_argument("--num-attention-heads", type=int, default=12)
    parser.add_argument("--seq-length", type=int, default=256)
    parser.add_argument("--micro-batch-size", type=int, default=4)
    parser.add_argument("--global-batch-size", type=int, default=4)
    parser.add_argument("--train-iters", type=int, default=5)
    parser.add_argument("--dp", type=int, default=1, help="ranks (processes)")
    parser.add_argument("--threads-per-rank", type=int, default=1)
    parser.add_argument(
        "--precision",
        choices=["fp32", "bf16", "autocast"],
        default="fp32",
        help="bf16: parameters and optimizer states too; autocast: fp32 parameters, bf16 matrix products",
    )
    return parser.parse_args()


def make_model(args: argparse.Namespace) -> torch.nn.Module:
    torch.manual_seed(1)
    model = GPT(args.num_layers, args.hidden_size, args.num_attention_heads, args.seq_length)
    for param in model.parameters():
        if param.dim() >= 2:
            torch.nn.init.normal_(param, std=0.02)
    if args.precision == "bf16":
        model = model.to(torch.bfloat16)
    if args.dp > 1:
        model = DistributedDataParallel(model, gradient_as_bucket_view=True)
    return model


def make_optimizer(args: argparse.Namespace, model: torch.nn.Module) -> torch.optim.Optimizer:
    groups = parameter_groups(model, weight_decay=0.1)
    options = {"lr": 1e-4, "betas": (0.9, 0.95), "fused": True}  # fused: the fastest on CPU
    if args.dp == 1:
        return torch.optim.AdamW(groups, **options)
    return ZeroRedundancyOptimizer(
        groups, optimizer_class=torch.optim.AdamW, parameters_as_bucket_view=True, **options
    )


def train_step(args, model, optimizer, microbatches) -> torch.Tensor:
    loss_sum = torch.zeros(())
    for i, tokens in enumerate(microbatches):
        last = i + 1 == len(microbatches)
        accumulate = model.no_sync() if args.dp > 1 and not last else contextlib.nullcontext()
        with accumulate:
            with torch.autocast("cpu", torch.bfloat16, enabled=args.precision == "autocast"):
                loss = model(tokens) / len(microbatches)
            loss.backward()
        loss_sum += loss.detach()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss_sum


def train(rank: int, args: argparse.Namespace, store_path: str) -> None:
    torch.set_num_threads(args.threads_per_rank)
    if args.dp > 1:
        dist.init_process_group("gloo", store=dist.FileStore(store_path, args.dp), rank=rank, world_size=args.dp)
    model = make_model(args)
    optimizer = make_optimizer(args, model)
    micro = args.micro_batch_size
    count = args.global_batch_size // (micro * args.dp)
    generator = torch.Generator().manual_seed(rank)
    for step in range(1, args.train_iters + 1):
        shape = (count, micro, args.seq_length + 1)
        microbatches = torch.randint(0, 256, shape, generator=generator)
        start = time.perf_counter()
        loss = train_step(args, model, optimizer, microbatches)
        ms = (time.perf_counter() - start) * 1e3
        if rank == 0:
            tokens = args.global_batch_size * args.seq_length
            print(json.dumps({"step": step, "tokens": tokens, "ms": ms, "loss": loss.item()}), flush=True)
    if args.dp > 1:
        dist.barrier()
        dist.destroy_process_group()


def main() -> None:
    args = parse_args()
    if args.global_batch_size % (args.micro_batch_size * args.dp):
        raise SystemExit("train.py: --global-batch-size must be a multiple of --micro-batch-size times --dp")
    if args.dp == 1:
        train(0, args, "")
        return
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(train, args=(args, os.path.join(folder, "store")), nprocs=args.dp)


if __name__ == "__main__":
    main()
