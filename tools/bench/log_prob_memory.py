#!/usr/bin/env python3
"""Peak memory of the log-probability of N tokens over a large vocabulary, forward and backward, beside full
logits in PyTorch (linear, log_softmax, gather).

    cmake --build build/cpu --target log_prob_bench
    tools/bench/log_prob_memory.py --bench build/cpu/bin/log_prob_bench

What counts is what a process grows by: weights, their gradient and the rows are there before. Every
measurement is a process of its own."""

import argparse
import json
import os
import sys
import time

import turns


def resident_mb(field):
    with open("/proc/self/status", encoding="utf-8") as file:
        return next(float(line.split()[1]) / 1e3 for line in file if line.startswith(field + ":"))


def full_logits(rows, dtype, vocabulary, hidden, threads):
    """Prints one JSON object: what PyTorch needs."""
    import torch
    import torch.nn.functional as F

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    dtype = {"bf16": torch.bfloat16, "fp32": torch.float32}[dtype]
    # A first call of everything, so that code and buffers of the library do not count.
    small = torch.randn(64, 64, dtype=dtype, requires_grad=True)
    F.log_softmax(F.linear(small, small), dim=-1).sum().backward()
    head = (torch.randn(vocabulary, hidden) * 0.05).to(dtype).requires_grad_(True)
    head.grad = torch.ones_like(head).zero_()
    x = torch.randn(rows, hidden).to(dtype).requires_grad_(True)
    tokens = torch.arange(rows) * 7919 % vocabulary
    with open("/proc/self/clear_refs", "w", encoding="utf-8") as file:
        file.write("5")  # VmHWM begins again from what is resident
    before, begin = resident_mb("VmRSS"), time.perf_counter()
    F.log_softmax(F.linear(x, head), dim=-1).gather(1, tokens[:, None]).sum().backward()
    print(json.dumps({"extra_mb": resident_mb("VmHWM") - before, "seconds": time.perf_counter() - begin}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", default="build/cpu/bin/log_prob_bench")
    parser.add_argument("--rows", type=int, nargs="+", default=[512, 2048])
    parser.add_argument("--vocabulary", type=int, default=151936)
    parser.add_argument("--hidden", type=int, default=896)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--dtype", choices=["bf16", "fp32"], nargs="+", default=["bf16", "fp32"])
    parser.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peer:
        full_logits(args.rows[0], args.dtype[0], args.vocabulary, args.hidden, args.threads)
        return
    environment = dict(os.environ, OMP_NUM_THREADS=str(args.threads))
    table = []
    for dtype in args.dtype:
        for rows in args.rows:
            size = [str(rows), dtype, str(args.vocabulary), str(args.hidden)]
            peer = [sys.executable, __file__, "--peer", "--rows", str(rows), "--dtype", dtype, "--vocabulary", size[2],
                    "--hidden", size[3], "--threads", str(args.threads)]
            ways = {"trireme": [args.bench, *size], "full logits": peer}
            results = turns.in_turns({name: lambda command=command: turns.json_lines(turns.output_of(
                command, env=environment))[-1] for name, command in ways.items()}, args.rounds)
            ours, full = ({key: turns.median([r[key] for r in results[name]]) for key in ("extra_mb", "seconds")}
                          for name in ways)
            table.append([dtype, rows, f"{ours['extra_mb']:.0f}", f"{full['extra_mb']:.0f}",
                          f"{ours['extra_mb'] / full['extra_mb']:.3f}", f"{full['seconds'] / ours['seconds']:.2f}"])
    turns.print_table(["dtype", "rows", "MB", "full logits MB", "share", "times as fast"], table)


if __name__ == "__main__":
    main()
