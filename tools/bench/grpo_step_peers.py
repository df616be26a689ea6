#!/usr/bin/env python3
"""One GRPO step beside TRL's, on the CPU: GSM8K prompts, 8 samples each of exactly 128 new tokens, a model of 25M
random weights, no KL term, one update of the whole batch. README.md says how TRL is installed.

    tools/bench/grpo_step_peers.py --trireme build/cpu/bin/trireme --gsm8k train.jsonl

Ours runs as two ranks of one thread and as one rank of two, TRL as two processes and as one; of each the faster
counts. Both start from the same weights and take the same problems in the same order."""

import argparse
import glob
import json
import os
import shutil
import sys
import tempfile

import shapes
import turns

PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
           r"|\s+(?!\S)|\s+")
END = "<|endoftext|>"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trireme", default="build/cpu/bin/trireme")
    parser.add_argument("--gsm8k", required=True, help="GSM8K's train.jsonl")
    parser.add_argument("--dtypes", nargs="+", default=["bf16", "fp32"], choices=["bf16", "fp32"])
    parser.add_argument("--prompts", type=int, default=16)
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--new-tokens", type=int, default=128)
    parser.add_argument("--steps", type=int, default=4, help="of a run; the first is left out")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--no-trl", action="store_true")
    return parser.parse_args()


def write_tokenizer(problems, folder, vocab_size):
    """A byte-level BPE of vocab_size tokens; -> the id of the one that ends a text."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PATTERN), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.train_from_iterator(
        (problem["question"] + "\n" + problem["answer"] for problem in problems),
        trainers.BpeTrainer(vocab_size=vocab_size - 1, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                            show_progress=False))
    tokenizer.add_special_tokens([END])
    tokenizer.save(os.path.join(folder, "tokenizer.json"))
    with open(os.path.join(folder, "tokenizer_config.json"), "w") as file:
        json.dump({"eos_token": END, "pad_token": END, "tokenizer_class": "PreTrainedTokenizerFast"}, file)
    return tokenizer.token_to_id(END)


def write_model(problems, folder):
    """Random weights that never end a text, so that every response has its full length: the first coordinate of all
    embeddings is large, the end's has the other sign, and the head is the embedding."""
    import torch

    os.makedirs(folder)
    end = write_tokenizer(problems, folder, shapes.SHAPES["25M"]["vocab_size"])
    model = shapes.hf_model("25M", "float32")
    with torch.no_grad():
        model.get_input_embeddings().weight[:, 0] = 4.0
        model.get_input_embeddings().weight[end, 0] = -4.0
    model.generation_config.eos_token_id = model.generation_config.bos_token_id = end
    model.save_pretrained(folder)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(dict(shapes.config_of("25M"), eos_token_id=end, bos_token_id=end), file)


def trireme(args, folder, problems, dtype, ranks):
    """-> seconds of a step's parts: the medians of a run's steps but the first."""
    runs = os.path.join(folder, "runs")
    shutil.rmtree(runs, ignore_errors=True)
    config = os.path.join(folder, "grpo.toml")
    with open(config, "w") as file:
        file.write(f"""[run]
name = "grpo"
output_dir = "{runs}"
ranks = {ranks}
threads_per_rank = {args.threads // ranks}
device = "cpu"
[model]
path = "{folder}/model"
dtype = "{dtype}"
[data]
train_files = ["{problems}"]
prompt_key = "question"
answer_key = "answer"
apply_chat_template = "never"
val_fraction = 0.0
shuffle = false
train_batch_size = {args.prompts}
max_prompt_length = 512
max_response_length = {args.new_tokens}
[algorithm]
name = "grpo"
[rollout]
n = {args.samples}
[reward]
name = "gsm8k"
[trainer]
total_training_steps = {args.steps}
val_before_train = false
""")
    turns.output_of([args.trireme, "run", config])
    with open(glob.glob(os.path.join(runs, "*", "metrics.jsonl"))[0]) as file:
        lines = [json.loads(line)["metrics"] for line in file]
    steps = [line for line in lines if "timing_s/gen" in line and "timing_s/update_actor" in line][1:]
    length = turns.median([step["response_length/mean"] for step in steps])
    assert length == args.new_tokens, f"responses have {length} tokens"
    parts = sorted({key for step in steps for key in step if key.startswith("timing_s/")})
    return {part.removeprefix("timing_s/"): turns.median([step.get(part, 0.0) for step in steps]) for part in parts}


def trl(args, folder, problems, dtype, processes):
    worker = os.path.join(os.path.dirname(os.path.abspath(__file__)), "trl_step.py")
    command = [sys.executable] if processes == 1 else [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    command += [worker, "--model", f"{folder}/model", "--problems", problems,
                "--dtype", {"bf16": "bfloat16", "fp32": "float32"}[dtype], "--prompts", str(args.prompts),
                "--samples", str(args.samples), "--new-tokens", str(args.new_tokens), "--steps", str(args.steps),
                "--processes", str(processes), "--threads", str(args.threads // processes),
                "--output", f"{folder}/trl"]
    threads = str(args.threads // processes)
    return turns.json_lines(turns.output_of(command, env=dict(os.environ, OMP_NUM_THREADS=threads)))[-1]


def medians(rounds):
    return {part: turns.median([figures.get(part, 0.0) for figures in rounds]) for part in rounds[0]}


def best_of(results, program):
    """-> name and part medians of the program's faster way, and its fastest step."""
    ways = {name: medians(rounds) for name, rounds in results.items() if name.startswith(program)}
    if not ways:
        return None
    name = min(ways, key=lambda way: ways[way]["step"])
    return name, ways[name], min(figures["step"] for figures in results[name])


def report(dtype, results):
    ours, theirs = best_of(results, "trireme"), best_of(results, "TRL")
    rows = []
    for way in filter(None, (ours, theirs)):
        name, parts, fastest = way
        rows.append([dtype, name, "step", f"{parts['step']:.2f} s", f"best {fastest:.2f} s",
                     f"{theirs[1]['step'] / ours[1]['step']:.2f}x faster" if theirs and way is ours else ""])
        for part, seconds in sorted(parts.items(), key=lambda item: -item[1]):
            if part != "step" and seconds > 0:
                rows.append(["", "", part, f"{seconds:.2f} s", f"{seconds / parts['step']:.0%}", ""])
    return rows


def main():
    args = arguments()
    with open(args.gsm8k) as file:
        problems = [json.loads(line) for line in file]
    with tempfile.TemporaryDirectory() as folder:
        write_model(problems, os.path.join(folder, "model"))
        few = os.path.join(folder, "problems.jsonl")  # both take them in this order
        with open(few, "w") as file:
            file.writelines(json.dumps(problem) + "\n" for problem in problems[:args.prompts * (args.steps + 2)])
        rows = []
        for dtype in args.dtypes:
            print(dtype)
            ways = {}
            for count in sorted({1, args.threads}, reverse=True):
                ways[f"trireme, {count} ranks"] = lambda count=count: trireme(args, folder, few, dtype, count)
                if not args.no_trl:
                    ways[f"TRL, {count} processes"] = lambda count=count: trl(args, folder, few, dtype, count)
            rows += report(dtype, turns.in_turns(ways, args.rounds))
    print(f"\n{args.prompts} prompts x {args.samples} samples x {args.new_tokens} tokens, {args.threads} threads, "
          f"medians of {args.rounds} rounds in turns; parts with their share of the step")
    turns.print_table(["dtype", "", "part", "time", "", ""], rows)


if __name__ == "__main__":
    main()
