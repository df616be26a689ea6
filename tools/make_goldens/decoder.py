#!/usr/bin/env python3
"""Writes tests/trainer/weights/goldens-decoder: a small Qwen2 and what transformers computes with it in fp32.

Seven query heads to a key/value head and rope_theta 1e6, as in Qwen2.5-0.5B; weights are drawn large, so that
attention and norms are far from their trivial values.
Needs torch, safetensors and transformers.  Usage: tools/make_goldens/decoder.py
"""
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import Qwen2Config, Qwen2ForCausalLM

FOLDER = Path(__file__).resolve().parents[2] / "tests/trainer/weights/goldens-decoder"


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    torch.manual_seed(1)
    model = Qwen2ForCausalLM(Qwen2Config(
        vocab_size=61, hidden_size=28, intermediate_size=36, num_hidden_layers=3, num_attention_heads=14,
        num_key_value_heads=2, head_dim=2, max_position_embeddings=256, rope_theta=1e6, rms_norm_eps=1e-6))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.randn(parameter.shape) * 0.3 + ("norm" in name)).copy_(parameter.bfloat16())
    model.to(torch.bfloat16).save_pretrained(FOLDER)
    (FOLDER / "generation_config.json").unlink(missing_ok=True)
    model = model.float().eval()
    tokens = torch.randint(0, 61, (1, 150))  # more than two blocks of 64 keys
    with torch.no_grad():
        logits = model(tokens).logits[0]
    save_file({"tokens": tokens[0].to(torch.int32), "logits": logits.contiguous()}, FOLDER / "expected.safetensors")


if __name__ == "__main__":
    main()
