#!/usr/bin/env python3
"""Writes tests/trainer/weights/goldens-value-head: small models of each family with one label, as transformers
saves them, each with what transformers computes with it in fp32 with eager attention (expected.safetensors):
  tokens [T]   a text of random tokens
  values [T]   the one number of each row
  grad.NAME    gradient of the sum of values times cos(row)
Token classifiers have a bias on the head, sequence classifiers (reward models) none.
Needs torch, safetensors and transformers.  Usage: tools/make_goldens/value_head.py
"""
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoModelForTokenClassification

from decoder import MODELS, TESTS

FOLDER = TESTS / "weights/goldens-value-head"
KINDS = {"qwen2-token": ("qwen2-group7-tied", AutoModelForTokenClassification),
         "qwen3-token": ("qwen3-one-kv-yarn-bias", AutoModelForTokenClassification),
         "llama-token": ("llama-group7-llama3", AutoModelForTokenClassification),
         "qwen2-sequence": ("qwen2-one-kv-linear", AutoModelForSequenceClassification)}
LENGTH = 90


def make(name, source, kind, seed):
    folder = FOLDER / name
    torch.manual_seed(seed)
    config = AutoConfig.for_model(**MODELS[source] | {"num_labels": 1, "classifier_dropout": 0.0, "dtype": "float32"})
    config._attn_implementation = "eager"
    model = kind.from_config(config).eval()
    for key, parameter in model.named_parameters():
        spread = 0.5 if parameter.dim() == 1 else 1.3 * parameter.shape[1] ** -0.5
        parameter.data = torch.randn(parameter.shape) * spread + ("norm" in key)
    model.save_pretrained(folder)
    tokens = torch.randint(0, config.vocab_size, (1, LENGTH))
    values = model.score(model.model(tokens).last_hidden_state)[0, :, 0]
    if kind is AutoModelForTokenClassification:
        assert torch.equal(values, model(tokens).logits[0, :, 0])
    (values * torch.cos(torch.arange(LENGTH))).sum().backward()
    expected = {"tokens": tokens[0].to(torch.int32), "values": values}
    for key, parameter in model.named_parameters():
        expected["grad." + key] = parameter.grad
    save_file({key: value.detach().contiguous() for key, value in expected.items()}, folder / "expected.safetensors")
    print(f"{name}: values from {values.min().item():.2f} to {values.max().item():.2f}")


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    for seed, (name, (source, kind)) in enumerate(KINDS.items(), 3):
        make(name, source, kind, seed)


if __name__ == "__main__":
    main()
