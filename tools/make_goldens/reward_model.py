#!/usr/bin/env python3
"""Writes tests/trainer/steps/goldens-reward-model: a small reward model of each family over the 259 ids of the
byte tokenizer, as transformers saves it, each with the scores that its sequence classification head gives in
fp32 with eager attention (expected.safetensors):
  tokens [sum of lengths]  sequences of random tokens end to end; pairs of them begin alike
  lengths [N]
  scores [N]               of one batch, padded on the right with pad_token_id
Two of the sequences end with pad_token_id themselves, as responses of a base model do: they are scored at the
last token before it.
Needs torch, safetensors and transformers.  Usage: tools/make_goldens/reward_model.py
"""
import shutil

import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForSequenceClassification

from decoder import LLAMA, QWEN2, QWEN3, TESTS, sizes

FOLDER = TESTS / "steps/goldens-reward-model"
PAD = 256
SHAPE = {"num_labels": 1, "pad_token_id": PAD, "dtype": "float32"}
MODELS = {"qwen2": QWEN2 | sizes(259, 16, 24, 2, 4, 2, True, rope_theta=1000000.0),
          "qwen3": QWEN3 | sizes(259, 16, 24, 2, 4, 1, False, head_dim=6, rope_theta=1000000.0),
          "llama": LLAMA | sizes(259, 20, 28, 2, 5, 5, False, head_dim=4, rope_theta=500000.0)}


def make_sequences():
    sequences = []
    for prompt, first, second in ((7, 1, 9), (40, 30, 2), (1, 5, 5), (64, 9, 8)):
        common = torch.randint(0, 256, (prompt,))
        for length in (first, second):
            sequences.append(torch.cat([common, torch.randint(0, 256, (length,))]))
    sequences[1][-1] = PAD
    sequences[4][-2:] = PAD
    return sequences


def make(name, fields, seed):
    folder = FOLDER / name
    torch.manual_seed(seed)
    config = AutoConfig.for_model(**{key: value for key, value in fields.items() if key != "architectures"} | SHAPE)
    config._attn_implementation = "eager"
    model = AutoModelForSequenceClassification.from_config(config).eval()
    for key, parameter in model.named_parameters():
        spread = 0.5 if parameter.dim() == 1 else 1.3 * parameter.shape[1] ** -0.5
        parameter.data = torch.randn(parameter.shape) * spread + ("norm" in key)
    model.save_pretrained(folder)
    sequences = make_sequences()
    longest = max(len(sequence) for sequence in sequences)
    ids = torch.full((len(sequences), longest), PAD)
    mask = torch.zeros_like(ids)
    for row, sequence in enumerate(sequences):
        ids[row, :len(sequence)] = sequence
        mask[row, :len(sequence)] = 1
    with torch.no_grad():
        scores = model(ids, attention_mask=mask).logits[:, 0]
    save_file({"tokens": torch.cat(sequences).to(torch.int32),
               "lengths": torch.tensor([len(sequence) for sequence in sequences], dtype=torch.int32),
               "scores": scores.contiguous()}, folder / "expected.safetensors")
    print(f"{name}: scores {[round(score, 3) for score in scores.tolist()]}")


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    for seed, (name, fields) in enumerate(MODELS.items(), 17):
        make(name, fields, seed)


if __name__ == "__main__":
    main()
