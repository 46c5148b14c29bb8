#!/usr/bin/env python3
"""Golden layouts computed by Megatron-Core itself, through its own buffer and optimizer classes.

    megatron_layout.py verify FILE.json...   recomputes committed cases; status 1 if one differs
    megatron_layout.py generate              writes tests/golden/extra/layout_megatron.json

Needs megatron-core beside what `bench/throughput --setup` installs:
    .cache/peers/bin/pip install --no-deps megatron-core==0.16.1 packaging
Tensors live on PyTorch's meta device, so that no memory is needed for 10^9 elements either.
"""

import argparse
import hashlib
import json
import pathlib
import random
import sys
import warnings

import torch

warnings.filterwarnings("ignore")  # about optional CUDA packages
from megatron.core import __version__ as MEGATRON_VERSION  # noqa: E402
from megatron.core.distributed import DistributedDataParallelConfig  # noqa: E402
from megatron.core.distributed.param_and_grad_buffer import _ParamAndGradBuffer  # noqa: E402
from megatron.core.optimizer.distrib_optimizer import DistributedOptimizer  # noqa: E402
from megatron.core.process_groups_config import ProcessGroupCollection  # noqa: E402

EXTRA = pathlib.Path(__file__).resolve().parents[1] / "golden" / "extra"
DTYPES = ["float32", "bfloat16", "float16"]
MOST_ROWS = 24  # cases with more rows than this give a digest instead


class Group:
    """What the layout functions ask of a process group."""

    def __init__(self, size: int):
        self.rank_now, self.ranks = 0, size

    def size(self) -> int:
        return self.ranks

    def rank(self) -> int:
        return self.rank_now


def start_torch() -> None:
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    torch.cuda.current_device = lambda: torch.device("meta")  # where the buffers are allocated


def buffers_of(case: dict) -> dict:
    """(param dtype, grad dtype, expert) -> parameters, in order of first appearance."""
    buffers: dict = {}
    for spec in case["params"]:
        grad_dtype = "float32" if case["grad_reduce_in_fp32"] else spec["dtype"]
        key = (spec["dtype"], grad_dtype, spec.get("expert_parallel", False))
        dtype = getattr(torch, spec["dtype"])
        param = torch.nn.Parameter(torch.empty(spec["shape"], dtype=dtype, device="meta"))
        param.shared_embedding = spec.get("shared_embedding", False)
        buffers.setdefault(key, {})[param] = spec["name"]
    return buffers


def megatron_buffer(case: dict, key: tuple, names: dict, group: Group) -> _ParamAndGradBuffer:
    config = DistributedDataParallelConfig(
        use_distributed_optimizer=True,
        grad_reduce_in_fp32=case["grad_reduce_in_fp32"],
        pad_buckets_for_high_nccl_busbw=case["pad_buckets_for_high_nccl_busbw"],
    )
    groups = ProcessGroupCollection()
    groups.tp = groups.dp_cp = Group(1)
    param_dtype, grad_dtype, _ = key
    params = list(names)
    return _ParamAndGradBuffer(
        config, getattr(torch, param_dtype), getattr(torch, grad_dtype), params, group,
        case["bucket_size"], names, 1.0, list(range(len(params))), False, groups,
    )


def rank_rows(buffer: _ParamAndGradBuffer, names: dict, rank: int) -> list:
    """[bucket, name, gbuf_world, gbuf_world_in_bucket, gbuf_local, param], in buffer order."""
    buffer.data_parallel_group.rank_now = rank
    (buckets,) = DistributedOptimizer._build_gbuf_range_map(buffer).values()
    rows = []
    for bucket, ranges in enumerate(buckets):
        found = sorted(ranges["param_map"].items(), key=lambda item: item[1]["gbuf_world"].start)
        for param, four in found:
            kinds = ("gbuf_world", "gbuf_world_in_bucket", "gbuf_local", "param")
            rows.append([bucket, names[param]] + [[four[k].start, four[k].end] for k in kinds])
    return rows


def digest(all_rows: list) -> str:
    sha = hashlib.sha256()
    for rows in all_rows:
        for bucket, name, *ranges in rows:
            text = " ".join(f"{start}:{end}" for start, end in ranges)
            sha.update(f"{bucket} {name} {text}\n".encode())
        sha.update(b"--\n")
    return sha.hexdigest()


def expect_buffer(case: dict, key: tuple, names: dict, as_rows: bool) -> dict:
    param_dtype, grad_dtype, expert = key
    size = case["expert_dp_size" if expert else "dp_size"]
    buffer = megatron_buffer(case, key, names, Group(size))
    buckets = []
    for (start, end), bucket in zip(buffer.bucket_indices, buffer.buckets, strict=True):
        entry = {"start": start, "end": end, "numel_unpadded": bucket.numel_unpadded}
        if as_rows:
            entry["params"] = [names[param] for param in bucket.params_list]
        buckets.append(entry)
    rows = [rank_rows(buffer, names, rank) for rank in range(size)]
    result = {
        "param_dtype": param_dtype, "grad_dtype": grad_dtype, "expert_parallel": expert, "dp_size": size,
        "numel": buffer.numel, "numel_unpadded": buffer.numel_unpadded, "buckets": buckets,
    }
    if as_rows:
        result["param_index"] = {name: list(buffer.param_index_map[p]) for p, name in names.items()}
        result["rank_ranges"] = rows
    else:
        result["rank_ranges_sha256"] = digest(rows)
        result["rank_range_rows"] = sum(len(r) for r in rows)
        result["num_buckets"] = len(buckets)
    return result


def expect_case(case: dict, as_rows: bool) -> list:
    return [expect_buffer(case, key, names, as_rows) for key, names in buffers_of(case).items()]


def as_rows_or_digest(case: dict) -> list:
    """Rows where they are few, so that a difference can be read off; the digest otherwise."""
    result = expect_case(case, as_rows=False)
    few = sum(buffer["rank_range_rows"] for buffer in result) <= MOST_ROWS
    return expect_case(case, as_rows=True) if few and case["dp_size"] <= 9 else result


# The cases ---------------------------------------------------------------------------------------------


def random_shape(rng: random.Random, largest: int) -> list[int]:
    dims = rng.choice([0, 1, 1, 2, 2, 2, 3])
    side = {0: 1, 1: largest, 2: int(largest**0.5), 3: int(largest ** (1 / 3))}[dims]
    return [rng.choice([1, 3, 7, 63, 64, 65, rng.randint(1, max(2, side))]) for _ in range(dims)]


def random_params(rng: random.Random, count: int, largest: int, shared: float, expert: float) -> list[dict]:
    dtypes = rng.sample(DTYPES, rng.choice([1, 1, 2, 3]))
    params = []
    for i in range(count):
        param = {"name": f"p{i}", "shape": random_shape(rng, largest), "dtype": rng.choice(dtypes)}
        if rng.random() < shared:
            param["shared_embedding"] = True
        if rng.random() < expert:
            param["expert_parallel"] = True
        params.append(param)
    return params


def make_case(name: str, params: list[dict], dp: int, expert_dp: int, bucket: int | None, busbw: bool,
              fp32_grads: bool) -> dict:
    return {
        "name": name, "params": params, "dp_size": dp, "expert_dp_size": expert_dp, "bucket_size": bucket,
        "pad_buckets_for_high_nccl_busbw": busbw, "grad_reduce_in_fp32": fp32_grads,
    }


def random_case(rng: random.Random, family: str, i: int, dps: list[int], **changes) -> dict:
    options = dict(count=(1, 9), largest=3000, shared=0.1, expert=0.2, busbw=0.2,
                   buckets=[None, 1, 63, 64, 128, 500, 1000, 4096, 20000, 10**9]) | changes
    dp = rng.choice(dps)
    divisors = [d for d in range(1, dp + 1) if dp % d == 0]
    params = random_params(rng, rng.randint(*options["count"]), options["largest"], options["shared"],
                           options["expert"])
    return make_case(f"{family}-{i:02d}", params, dp, rng.choice(divisors), rng.choice(options["buckets"]),
                     rng.random() < options["busbw"], rng.random() < 0.5)


def transformer_params(rng: random.Random, layers: int, width: int, experts: int, tied: bool) -> list[dict]:
    dtype = rng.choice(["bfloat16", "float16", "float32"])
    ffn = 4 * width
    params = [{"name": "embedding", "shape": [rng.randint(50, 999), width], "shared_embedding": tied}]
    for layer in range(layers):
        shapes = {"norm_1": [width], "qkv.weight": [3 * width, width], "qkv.bias": [3 * width],
                  "proj.weight": [width, width], "proj.bias": [width], "norm_2": [width]}
        params += [{"name": f"{layer}.{name}", "shape": shape} for name, shape in shapes.items()]
        for e in range(experts):
            for name, shape in (("fc1", [ffn, width]), ("fc2", [width, ffn])):
                params.append({"name": f"{layer}.expert{e}.{name}", "shape": shape, "expert_parallel": True})
        if not experts:
            params += [{"name": f"{layer}.fc1", "shape": [ffn, width]},
                       {"name": f"{layer}.fc2", "shape": [width, ffn]}]
        params.append({"name": f"{layer}.router", "shape": [max(1, experts), width], "dtype": "float32"})
    if not tied:
        params.append({"name": "head", "shape": params[0]["shape"], "shared_embedding": True})
    return [{key: value for key, value in ({"dtype": dtype} | p).items() if value is not False} for p in params]


def transformer_case(rng: random.Random, i: int) -> dict:
    params = transformer_params(rng, rng.randint(1, 4), rng.choice([24, 40, 96, 769]), rng.choice([0, 0, 2, 3]),
                                rng.random() < 0.5)
    dp = rng.choice([3, 5, 6, 24, 96, 768])
    expert_dp = rng.choice([d for d in range(1, dp + 1) if dp % d == 0])
    bucket = rng.choice([None, 1, 10_000, 100_000, 1_000_000, 40_000_000])
    return make_case(f"transformer-{i:02d}", params, dp, expert_dp, bucket, rng.random() < 0.4,
                     rng.random() < 0.5)


def all_cases() -> list[dict]:
    rng = random.Random(2001)
    small, odd, large = list(range(1, 10)), [3, 5, 7, 11, 13], [24, 96, 768, 1000, 255]
    cases = [random_case(rng, "small", i, small) for i in range(70)]
    cases += [random_case(rng, "odd", i, odd, largest=20000) for i in range(25)]
    cases += [random_case(rng, "many", i, large, count=(5, 25), largest=200_000) for i in range(30)]
    cases += [random_case(rng, "shared", i, small + odd, shared=0.6, expert=0.1) for i in range(20)]
    cases += [random_case(rng, "expert", i, [6, 8, 12, 24], expert=0.6) for i in range(15)]
    cases += [random_case(rng, "busbw", i, odd + large, busbw=1, largest=100_000) for i in range(20)]
    cases += [transformer_case(rng, i) for i in range(20)]
    return cases


def generate(path: pathlib.Path) -> None:
    lines = []
    for case in all_cases():
        lines.append(json.dumps({"case": case, "expect": as_rows_or_digest(case)}, separators=(",", ":")))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    print(f"{path}: {len(lines)} cases by Megatron-Core {MEGATRON_VERSION}, {path.stat().st_size} bytes")


def verify(path: pathlib.Path) -> bool:
    different = []
    entries = json.loads(path.read_text())
    for entry in entries:
        as_rows = "rank_ranges" in entry["expect"][0]
        if expect_case(entry["case"], as_rows) != entry["expect"]:
            different.append(entry["case"]["name"])
    print(f"{path}: {len(entries) - len(different)} of {len(entries)} cases equal Megatron-Core "
          f"{MEGATRON_VERSION}'s layout" + "".join(f"\n  differs: {name}" for name in different))
    return not different


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    verifier = commands.add_parser("verify", help="recompute committed cases")
    verifier.add_argument("file", type=pathlib.Path, nargs="+")
    generator = commands.add_parser("generate", help="write the cases")
    generator.add_argument("--out", type=pathlib.Path, default=EXTRA / "layout_megatron.json")
    args = parser.parse_args()
    start_torch()
    if args.command == "generate":
        generate(args.out)
        return 0
    return 0 if all([verify(path) for path in args.file]) else 1


if __name__ == "__main__":
    sys.exit(main())
