#!/usr/bin/env python3
"""Writes tests/trainer/weights/goldens: files made by safetensors and transformers, which ours must read.

Every tensor holds pattern(name): small multiples of 1/64 that bf16, fp16 and fp32 all hold exactly.
Needs torch, safetensors and transformers.  Usage: tools/make_goldens/weights.py
"""
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import Qwen2Config, Qwen2ForCausalLM

GOLDENS = Path(__file__).resolve().parents[2] / "tests/trainer/weights/goldens"


def pattern(name: str, shape, dtype) -> torch.Tensor:
    count = torch.Size(shape).numel()
    steps = (torch.arange(count) * 37 + sum(name.encode())) % 251 - 125
    if dtype == torch.bool:
        return (steps % 2 == 0).reshape(shape)
    if dtype == torch.uint8:
        return (steps + 125).to(dtype).reshape(shape)
    if not dtype.is_floating_point:
        return steps.to(dtype).reshape(shape)
    return (steps.double() / 64).to(dtype).reshape(shape)


def main():
    shutil.rmtree(GOLDENS, ignore_errors=True)
    GOLDENS.mkdir(parents=True)
    types = dict(F32=torch.float32, F64=torch.float64, F16=torch.float16, BF16=torch.bfloat16, I64=torch.int64,
                 I32=torch.int32, I16=torch.int16, I8=torch.int8, U8=torch.uint8, BOOL=torch.bool)
    tensors = {name: pattern(name, (3, 5), dtype) for name, dtype in types.items()}
    tensors["scalar"] = pattern("scalar", (), torch.float32)
    tensors["empty"] = pattern("empty", (4, 0), torch.float32)
    tensors["größe \"x\"\n"] = pattern("größe \"x\"\n", (2, 2, 2), torch.float32)
    save_file(tensors, GOLDENS / "types.safetensors", metadata={"format": "pt", "step": "12"})

    for folder, tied, dtype, shard in (("tied-bf16", True, torch.bfloat16, "1GB"),
                                       ("sharded-fp32", False, torch.float32, "8KB")):
        model = Qwen2ForCausalLM(Qwen2Config(
            vocab_size=32, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=64, tie_word_embeddings=tied)).to(dtype)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(pattern(name, parameter.shape, dtype))
        model.save_pretrained(GOLDENS / folder, max_shard_size=shard)
        (GOLDENS / folder / "generation_config.json").unlink(missing_ok=True)


if __name__ == "__main__":
    main()
