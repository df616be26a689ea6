#!/usr/bin/env python3
"""GRPO steps of TRL's GRPOTrainer on the CPU; grpo_step_peers.py runs this, alone or under torchrun. Prints one
JSON object: seconds of the last steps' parts, medians."""

import argparse
import json
import statistics
import time

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast, TrainerCallback
from trl import GRPOConfig, GRPOTrainer


class Timed(GRPOTrainer):
    """Adds up the seconds of each part of a step."""

    def __init__(self, *args, **options):
        self.seconds = {}
        super().__init__(*args, **options)

    def timed(self, part, work, *args, **options):
        begin = time.perf_counter()
        result = work(*args, **options)
        self.seconds[part] = self.seconds.get(part, 0.0) + time.perf_counter() - begin
        return result

    def _generate(self, *args, **options):
        return self.timed("generation", super()._generate, *args, **options)

    def _get_per_token_logps_and_entropies(self, *args, **options):
        return self.timed("log-probabilities", super()._get_per_token_logps_and_entropies, *args, **options)


class Steps(TrainerCallback):
    def __init__(self):
        self.trainer, self.steps = None, []

    def on_step_begin(self, *args, **options):
        self.trainer.seconds = {}
        self.begin = time.perf_counter()

    def on_step_end(self, *args, **options):
        self.steps.append(dict(self.trainer.seconds, step=time.perf_counter() - self.begin))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--problems", required=True)
    parser.add_argument("--dtype", choices=["bfloat16", "float32"], required=True)
    parser.add_argument("--prompts", type=int, required=True)
    parser.add_argument("--samples", type=int, required=True)
    parser.add_argument("--new-tokens", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--processes", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True, help="of each process")
    parser.add_argument("--output", required=True)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    with open(args.problems) as file:
        questions = [json.loads(line)["question"] for line in file]
    questions = questions[:args.prompts * (args.steps + 2)]
    steps = Steps()
    trainer = Timed(
        model=AutoModelForCausalLM.from_pretrained(args.model, dtype=getattr(torch, args.dtype)),
        reward_funcs=lambda completions, **_: [float(len(set(text)) % 2) for text in completions],
        processing_class=PreTrainedTokenizerFast.from_pretrained(args.model, padding_side="left"),
        train_dataset=Dataset.from_dict({"prompt": questions}),
        callbacks=[steps],
        args=GRPOConfig(
            output_dir=args.output, use_cpu=True, bf16=False, fp16=False, max_steps=args.steps, learning_rate=1e-6,
            per_device_train_batch_size=args.prompts * args.samples // args.processes, gradient_accumulation_steps=1,
            num_generations=args.samples, max_completion_length=args.new_tokens,
            gradient_checkpointing=False, logging_strategy="no", save_strategy="no", report_to=[], shuffle_dataset=False, seed=1))
    steps.trainer = trainer
    trainer.train()
    if trainer.accelerator.is_main_process:
        last = steps.steps[1:]  # memory is touched in the first
        medians = {part: statistics.median(step[part] for step in last) for part in last[0]}
        medians["rest of the update"] = medians["step"] - medians["generation"] - medians["log-probabilities"]
        print(json.dumps(medians), flush=True)


if __name__ == "__main__":
    main()
