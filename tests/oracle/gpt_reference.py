#!/usr/bin/env python3
"""Golden GPT trajectories in float64: PyTorch autograd, AdamW and clip_grad_norm_.

    gpt_reference.py verify tests/golden/gpt-a   reproduces a committed case and prints the differences
    gpt_reference.py generate                    writes the cases of tests/golden/extra/

Needs torch and safetensors; `bench/throughput --setup` makes an environment that has both:
    .cache/peers/bin/python tests/oracle/gpt_reference.py generate
"""

import argparse
import json
import pathlib
import random
import sys

import torch
from safetensors.torch import load_file, save_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "peers"))
from gpt import GPT, parameter_groups  # noqa: E402

GOLDEN = ROOT / "tests" / "golden"
EXTRA = GOLDEN / "extra"
STEPS = 20
DEFAULTS = {"vocab": 256, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8}

# What each case is for is told in tests/golden/extra/README.md.
CASES = {
    "gpt-one-head": dict(layers=1, d_model=16, heads=1, seq_len=7, global_batch=6,
                         lr=0.004, weight_decay=0.1, clip_grad=1.0),
    "gpt-three-heads": dict(layers=1, d_model=24, heads=3, seq_len=16, global_batch=16,
                            lr=0.003, weight_decay=0.01, clip_grad=0.5),
    "gpt-never-clips": dict(layers=1, d_model=16, heads=2, seq_len=20, global_batch=6,
                            lr=0.002, weight_decay=0.0, clip_grad=1e6),
    "gpt-always-clips": dict(layers=2, d_model=16, heads=4, seq_len=7, global_batch=16,
                             lr=0.005, weight_decay=0.1, clip_grad=0.05),
    "gpt-heavy-decay": dict(layers=1, d_model=20, heads=5, seq_len=13, global_batch=12,
                            lr=0.005, weight_decay=5.0, clip_grad=1.0),
    "gpt-no-clip": dict(layers=1, d_model=12, heads=3, seq_len=9, global_batch=24,
                        lr=0.001, weight_decay=0.1, clip_grad=0.0),
    "gpt-betas": dict(layers=1, d_model=14, heads=7, seq_len=5, global_batch=30, lr=0.004,
                      weight_decay=0.3, clip_grad=0.95, beta1=0.8, beta2=0.99, eps=1e-5),
}


def corpus_bytes(count: int, seed: int) -> bytes:
    """Random words over all 256 byte values, some common and most rare, so that there is much to learn."""
    rng = random.Random(seed)
    words = [bytes(rng.randrange(256) for _ in range(rng.randint(1, 6))) for _ in range(40)]
    weights = [1 / (i + 1) for i in range(len(words))]
    text = bytearray()
    while len(text) < count:
        text += rng.choices(words, weights)[0] + b" "
    return bytes(text[:count])


def initial_parameters(config: dict, seed: int) -> dict[str, torch.Tensor]:
    """Normal, with random biases and gains, so that no gradient is zero by symmetry; stored in float32."""
    model = GPT(config["layers"], config["d_model"], config["heads"], config["seq_len"], config["vocab"])
    generator = torch.Generator().manual_seed(seed)
    params = {}
    for name, param in model.named_parameters():
        gain = name.endswith("weight") and param.dim() == 1
        noise = torch.randn(param.shape, generator=generator, dtype=torch.float32)
        params[name] = 1 + 0.05 * noise if gain else 0.02 * noise
    return params


def train(config: dict, init: dict, data: bytes, steps: int, dtype: torch.dtype):
    """Returns ([{step, loss, grad_norm}], final parameters)."""
    model = GPT(config["layers"], config["d_model"], config["heads"], config["seq_len"], config["vocab"])
    model.load_state_dict(init)
    model = model.to(dtype)
    optimizer = torch.optim.AdamW(
        parameter_groups(model, config["weight_decay"]),
        lr=config["lr"], betas=(config["beta1"], config["beta2"]), eps=config["eps"],
    )
    seq_len, batch = config["seq_len"], config["global_batch"]
    max_norm = config["clip_grad"] or float("inf")
    history = []
    for step in range(steps):
        starts = [i * seq_len for i in range(step * batch, (step + 1) * batch)]
        tokens = torch.tensor([list(data[s : s + seq_len + 1]) for s in starts])
        loss = model(tokens)
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
        history.append({"step": step + 1, "loss": loss.item(), "grad_norm": norm.item()})
    return history, {name: p.detach() for name, p in model.named_parameters()}


def bytes_needed(config: dict, steps: int) -> int:
    return steps * config["global_batch"] * config["seq_len"] + 1


def largest_differences(found: list[dict], expected: list[dict]) -> tuple[float, float]:
    """Of the loss (absolute) and of the gradient norm (relative), over all steps."""
    pairs = list(zip(found, expected, strict=True))
    loss = max(abs(f["loss"] - e["loss"]) for f, e in pairs)
    norm = max(abs(f["grad_norm"] / e["grad_norm"] - 1) for f, e in pairs)
    return loss, norm


def verify(stem: pathlib.Path, data: pathlib.Path) -> bool:
    golden = json.loads(stem.with_suffix(".json").read_text())
    init = load_file(f"{stem}.init.safetensors")
    history, params = train(golden["config"], init, data.read_bytes(), golden["steps"], torch.float64)
    loss, norm = largest_differences(history, golden["float64"])
    final = load_file(f"{stem}.final.safetensors")
    param = max((params[name] - final[name]).abs().max().item() for name in final)
    # The final parameters are stored in float32: half a unit in the last place of values below 4.
    good = loss < 1e-9 and norm < 1e-9 and param < 2.5e-7 and params.keys() == final.keys()
    print(f"{stem.name}: largest difference in loss {loss:.1e}, norm {norm:.1e} (relative), "
          f"final parameters {param:.1e}: {'reproduced' if good else 'DIFFERENT'}")
    return good


def generate(folder: pathlib.Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    configs = {name: DEFAULTS | changes for name, changes in CASES.items()}
    data = corpus_bytes(max(bytes_needed(c, STEPS) for c in configs.values()), seed=20)
    (folder / "corpus.txt").write_bytes(data)
    for seed, (name, config) in enumerate(configs.items(), start=100):
        init = initial_parameters(config, seed)
        history, params = train(config, init, data, STEPS, torch.float64)
        in_float32, _ = train(config, init, data, STEPS, torch.float32)
        loss, norm = largest_differences(in_float32, history)
        golden = {
            "config": config, "steps": STEPS, "text_bytes_needed": bytes_needed(config, STEPS),
            "float64": history, "float32_max_abs_loss_diff": loss, "float32_max_rel_grad_norm_diff": norm,
        }
        (folder / f"{name}.json").write_text(json.dumps(golden, indent=0) + "\n")
        save_file(init, folder / f"{name}.init.safetensors", {"format": "pt"})
        final = {key: value.float() for key, value in params.items()}
        save_file(final, folder / f"{name}.final.safetensors", {"format": "pt"})
        norms = [h["grad_norm"] for h in history]
        print(f"{name}: loss {history[0]['loss']:.4f} -> {history[-1]['loss']:.4f}, norm {min(norms):.3f} to "
              f"{max(norms):.3f}, float32 differs by {loss:.1e} in loss and {norm:.1e} in norm")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    verifier = commands.add_parser("verify", help="reproduce committed cases; status 1 if one differs")
    verifier.add_argument("stem", type=pathlib.Path, nargs="+", help="a case's path without its endings")
    verifier.add_argument("--data", type=pathlib.Path,
                          help="the bytes it trains on (default: corpus.txt beside it)")
    generator = commands.add_parser("generate", help="write the cases")
    generator.add_argument("--out", type=pathlib.Path, default=EXTRA, help="folder (default: tests/golden/extra)")
    args = parser.parse_args()
    torch.set_num_threads(1)  # so that sums run in one order
    if args.command == "generate":
        generate(args.out)
        return 0
    good = True
    for stem in args.stem:
        good = verify(stem, args.data or stem.parent / "corpus.txt") and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
