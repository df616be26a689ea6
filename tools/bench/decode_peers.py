#!/usr/bin/env python3
"""Decode on the CPU beside llama.cpp and Hugging Face generate: tokens a second, bf16, after a context of 256
tokens. README.md says how the peers are installed.

    tools/bench/decode_peers.py --trireme build/cpu/bin/trireme --llama llama-build/bin/llama-batched-bench

Every row: the same shape, threads, dtype, batch, context and number of steps; prefill is left out of all.
llama.cpp runs with and without flash attention and generate with both of its caches; the faster one counts."""

import argparse
import json
import os
import tempfile
import time

import shapes
import turns


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trireme", default="build/cpu/bin/trireme")
    parser.add_argument("--llama", help="llama-batched-bench; without it, llama.cpp is left out")
    parser.add_argument("--hf", action="store_true", help="also generate of transformers, at the batches of --hf-batches")
    parser.add_argument("--hf-batches", type=int, nargs="+", default=[16])
    parser.add_argument("--shapes", nargs="+", default=list(shapes.SHAPES), choices=list(shapes.SHAPES))
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--context", type=int, default=256)
    parser.add_argument("--new-tokens", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--work", help="where configs and GGUF files are kept (default: a temporary folder)")
    return parser.parse_args()


def trireme_command(args, config, batch):
    return [args.trireme, "bench", "rollout", "--shape", config, "--batch", str(batch), "--context", str(args.context),
            "--new-tokens", str(args.new_tokens), "--repeats", "1", "--threads", str(args.threads), "--json"]


def llama_command(args, gguf, batch, flash):
    # -pps computes one prompt and copies its keys and values, so that each sequence has its own.
    return [args.llama, "-m", gguf, "-npp", str(args.context), "-ntg", str(args.new_tokens), "-npl", str(batch), "-pps",
            "-c", str(batch * (args.context + args.new_tokens + 256)), "-b", "2048", "-ub", "512", "-fa", flash,
            "-t", str(args.threads), "-tb", str(args.threads), "--output-format", "jsonl"]


def trireme(command):
    result = turns.json_lines(turns.output_of(command))[-1]
    return {key: result[key] for key in ("tokens_per_second", "share_of_memory_limit", "share_of_product_limit")}


def llama(command):
    for _ in range(5):  # its log is written by a thread of its own, and sometimes ends before the last line
        for line in turns.json_lines(turns.output_of(command)):
            if "speed_tg" in line:
                return line["speed_tg"]
    raise SystemExit(" ".join(command) + "\nprints no figure")


def generate(model, batch, args, cache):
    """Decode steps alone: a generation of new_tokens + 1, less one of 1."""
    import torch

    prompts = torch.randint(1, model.config.vocab_size, (batch, args.context))

    def seconds(tokens):
        begin = time.perf_counter()
        with torch.inference_mode():
            model.generate(prompts, attention_mask=torch.ones_like(prompts), max_new_tokens=tokens,
                           min_new_tokens=tokens, do_sample=False, cache_implementation=cache, pad_token_id=0)
        return time.perf_counter() - begin

    return batch * args.new_tokens / (seconds(args.new_tokens + 1) - seconds(1))


def measure(args, shape, batch, work):
    config, gguf = (os.path.join(work, shape + end) for end in (".json", ".gguf"))
    with open(config, "w") as file:
        json.dump(shapes.config_of(shape), file)
    commands = {"trireme": trireme_command(args, config, batch)}
    ways = {"trireme": lambda: trireme(commands["trireme"])}
    if args.llama:
        if not os.path.exists(gguf):
            shapes.write_gguf(shape, gguf)
        for flash in ("on", "off"):
            commands["llama.cpp -fa " + flash] = llama_command(args, gguf, batch, flash)
            ways["llama.cpp -fa " + flash] = lambda flash=flash: llama(commands["llama.cpp -fa " + flash])
    if args.hf and batch in args.hf_batches:
        import torch

        torch.set_num_threads(args.threads)
        model = shapes.hf_model(shape, "bfloat16")
        for cache in ("dynamic", "static"):
            ways["generate, " + cache] = lambda cache=cache: generate(model, batch, args, cache)
    print(f"{shape}, batch {batch}")
    for command in commands.values():
        print("  $", " ".join(command))
    return turns.in_turns(ways, args.rounds)


def rows_of(shape, batch, results):
    ours = [result["tokens_per_second"] for result in results["trireme"]]
    shares = [turns.median([result[key] for result in results["trireme"]])
              for key in ("share_of_memory_limit", "share_of_product_limit")]
    yield [shape, batch, "trireme", f"{turns.median(ours):.0f}", f"{max(ours):.0f}", "", "",
           f"{shares[0]:.0%}", f"{shares[1]:.0%}"]
    for peer in ("llama.cpp", "generate"):
        ways = {name: figures for name, figures in results.items() if name.startswith(peer)}
        if not ways:
            continue
        name = max(ways, key=lambda way: turns.median(ways[way]))
        theirs = ways[name]
        yield [shape, batch, name, f"{turns.median(theirs):.0f}", f"{max(theirs):.0f}",
               f"{turns.median(ours) / turns.median(theirs):.2f}x", f"{max(ours) / max(theirs):.2f}x", "", ""]


def main():
    args = arguments()
    with tempfile.TemporaryDirectory() as folder:
        work = args.work or folder
        os.makedirs(work, exist_ok=True)
        rows = [row for shape in args.shapes for batch in args.batches
                for row in rows_of(shape, batch, measure(args, shape, batch, work))]
    print(f"\ndecode, bf16, context {args.context}, {args.threads} threads, {args.rounds} rounds in turns; "
          "tokens/s; ours by theirs")
    turns.print_table(["shape", "batch", "", "median", "best", "by median", "by best", "of memory", "of products"], rows)


if __name__ == "__main__":
    main()
