#!/usr/bin/env python3
"""A training step beside PyTorch eager with transformers: forward, backward, clipping and AdamW (fused in
PyTorch) over the same packed tokens, with random weights of one shape.

    tools/bench/train_step.py --trireme build/cpu/bin/trireme --threads 2

The peer's best way counts: attention sdpa or eager, and in bf16 weights in bf16 (which spare it the fp32
masters that we keep) or autocast over fp32 weights. Every measurement is a process of its own."""

import argparse
import json
import os
import resource
import statistics
import sys
import tempfile
import time

import shapes
import turns

PEERS = {"bfloat16": ["sdpa", "eager", "sdpa+autocast"], "float32": ["sdpa", "eager"]}


def peer(args, dtype, way):
    """Prints one JSON object with what a round of the peer gave."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    attention, _, mixed = way.partition("+")
    config = {key: value for key, value in shapes.config_of(args.shape).items()
              if key not in ("architectures", "model_type", "torch_dtype")}
    config = Qwen2Config(**config)
    config._attn_implementation = attention
    model = Qwen2ForCausalLM(config).to(torch.float32 if mixed else getattr(torch, dtype))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=True)
    tokens = torch.randint(0, config.vocab_size, (args.batch, args.context))
    times = []
    for step in range(args.repeats + 1):
        begin = time.perf_counter()
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=bool(mixed)):
            loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step:  # the first touches memory
            times.append(time.perf_counter() - begin)
    print(json.dumps({"tokens_per_second": args.batch * args.context / statistics.median(times),
                      "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9}))


def figures(command, threads):
    result = turns.json_lines(turns.output_of(command, env=dict(os.environ, OMP_NUM_THREADS=str(threads))))[-1]
    return {key: result[key] for key in ("tokens_per_second", "peak_gb", "forward_ms", "backward_ms", "update_ms",
                                         "share_of_product_limit", "product_gflops") if key in result}


def compare(args, dtype, config):
    size = ["--batch", str(args.batch), "--context", str(args.context), "--threads", str(args.threads),
            "--repeats", str(args.repeats)]
    ours = [args.trireme, "bench", "train-step", "--shape", config, "--dtype", dtype, "--json", *size]
    theirs = [sys.executable, __file__, "--shape", args.shape, *size, "--dtype", dtype]
    ways = {"trireme": lambda: figures(ours, args.threads)}
    for way in PEERS[dtype]:
        ways[way] = lambda way=way: figures([*theirs, "--peer", way], args.threads)
    results = turns.in_turns(ways, args.rounds)
    rate = {name: turns.median([r["tokens_per_second"] for r in rounds]) for name, rounds in results.items()}
    best = max(PEERS[dtype], key=rate.get)
    turns.print_table(["dtype", "way", "tokens/s", "peak GB", "trireme's ratio"],
                      [[dtype, name, f"{rate[name]:.0f}", f"{max(r['peak_gb'] for r in rounds):.2f}",
                        f"{rate['trireme'] / rate[name]:.2f}"] for name, rounds in results.items()])
    products = turns.median([r["product_gflops"] for r in results["trireme"]])
    share = turns.median([r["share_of_product_limit"] for r in results["trireme"]])
    print(f"{dtype}: {rate['trireme'] / rate[best]:.2f} times {best}; a step of nothing but the faster of our products and LibTorch's "
          f"({products:.0f} GFLOP/s) would be {rate['trireme'] / share / rate[best]:.2f} times {best}\n", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trireme", default="build/cpu/bin/trireme")
    parser.add_argument("--shape", default="25M", choices=list(shapes.SHAPES))
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--context", type=int, default=256)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--repeats", type=int, default=3, help="steps in a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dtype", choices=list(PEERS), nargs="+", default=list(PEERS))
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peer:
        peer(args, args.dtype[0], args.peer)
        return
    with tempfile.TemporaryDirectory() as work:
        config = os.path.join(work, "config.json")
        with open(config, "w", encoding="utf-8") as file:
            json.dump(shapes.config_of(args.shape), file)
        for dtype in args.dtype:
            compare(args, dtype, config)


if __name__ == "__main__":
    main()
