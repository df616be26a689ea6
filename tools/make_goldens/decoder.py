#!/usr/bin/env python3
"""Writes tests/trainer/weights/goldens-decoder: small models of each family as checkpoints, each with what
transformers computes with it, and tests/trainer/models/goldens/rope.json: rotary frequencies at real sizes.

Each folder is a checkpoint in bf16 whose config.json stands as published ones do (older and newer forms), and
expected.safetensors, all from transformers with eager attention, in fp32 unless said:
  tokens [T]              a text of random tokens, longer than two blocks of 64 keys
  rows [R]                the rows whose logits are kept
  logits [R, V]
  bf16_error [2]          largest and mean |logits in bf16 - logits| over those rows
  greedy, greedy_gap [64] greedy tokens after the text's first 70, and by how much the best logit led
  grad.NAME               gradient of the mean negative log-likelihood of the text's tokens 1..T-1
Needs torch, safetensors and transformers.  Usage: tools/make_goldens/decoder.py
"""
import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

TESTS = Path(__file__).resolve().parents[2] / "tests/trainer"
FOLDER = TESTS / "weights/goldens-decoder"
LENGTH, PROMPT, NEW = 150, 70, 64

SHARED = {"hidden_act": "silu", "attention_dropout": 0.0, "initializer_range": 0.02, "use_cache": True,
          "max_position_embeddings": 256, "bos_token_id": 1, "eos_token_id": None}
QWEN2 = SHARED | {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "rms_norm_eps": 1e-6,
                  "use_sliding_window": False, "sliding_window": 4096, "max_window_layers": 2}
QWEN3 = SHARED | {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "rms_norm_eps": 1e-6,
                  "use_sliding_window": False, "sliding_window": None, "max_window_layers": 2}
LLAMA = SHARED | {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "rms_norm_eps": 1e-5,
                  "mlp_bias": False, "pretraining_tp": 1}


def sizes(vocab, hidden, mlp, layers, heads, kv_heads, tied, **more):
    return {"vocab_size": vocab, "hidden_size": hidden, "intermediate_size": mlp, "num_hidden_layers": layers,
            "num_attention_heads": heads, "num_key_value_heads": kv_heads, "tie_word_embeddings": tied, **more}


MODELS = {
    # Seven query heads to a key/value head, as in Qwen2.5-0.5B.
    "qwen2-group7-tied": QWEN2 | sizes(61, 14, 17, 2, 14, 2, True, head_dim=4, rope_theta=1000000.0,
                                       torch_dtype="bfloat16"),
    "qwen2-one-kv-linear": QWEN2 | sizes(53, 18, 21, 2, 3, 1, False, rope_theta=10000.0, torch_dtype="bfloat16",
                                         rope_scaling={"type": "linear", "factor": 2.5}),
    "qwen2-equal-heads-yarn": QWEN2 | sizes(
        67, 20, 19, 2, 4, 4, True, head_dim=6, rope_theta=1000000.0, torch_dtype="bfloat16",
        rope_scaling={"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}),
    "qwen3-group7-tied": QWEN3 | sizes(59, 14, 15, 2, 14, 2, True, head_dim=6, rope_theta=1000000,
                                       attention_bias=False, rope_scaling=None, torch_dtype="bfloat16"),
    "qwen3-one-kv-yarn-bias": QWEN3 | sizes(
        47, 15, 19, 2, 5, 1, False, head_dim=12, attention_bias=True, dtype="bfloat16",
        layer_types=["full_attention"] * 2,
        rope_parameters={"rope_type": "yarn", "rope_theta": 500000.0, "factor": 2.0, "attention_factor": 1.25,
                         "beta_fast": 4.0, "beta_slow": 0.5, "truncate": False,
                         "original_max_position_embeddings": 128}),
    "qwen3-equal-heads-llama3": QWEN3 | sizes(
        71, 18, 23, 2, 3, 3, True, head_dim=10, attention_bias=False, dtype="bfloat16",
        rope_parameters={"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
                         "high_freq_factor": 4.0, "original_max_position_embeddings": 64}),
    "llama-group7-llama3": LLAMA | sizes(
        57, 14, 13, 2, 14, 2, False, head_dim=4, attention_bias=False, rope_theta=500000.0, torch_dtype="bfloat16",
        rope_scaling={"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                      "original_max_position_embeddings": 128}),
    "llama-one-kv-linear-bias": LLAMA | sizes(
        63, 18, 22, 2, 3, 1, True, head_dim=12, attention_bias=True, rope_theta=500000.0, torch_dtype="bfloat16",
        rope_scaling={"rope_type": "linear", "factor": 3}),
    "llama-equal-heads-yarn": LLAMA | sizes(
        51, 15, 22, 2, 5, 5, False, head_dim=8, attention_bias=False, dtype="bfloat16",
        rope_parameters={"rope_type": "yarn", "rope_theta": 10000.0, "factor": 8.0, "mscale": 0.9,
                         "mscale_all_dim": 0.4, "original_max_position_embeddings": 32}),
}


ROPES = [
    {"head_dim": 64, "rope_theta": 1000000.0},
    {"head_dim": 128, "rope_theta": 10000.0, "rope_scaling": {"rope_type": "linear", "factor": 3.7}},
    {"head_dim": 64, "rope_theta": 500000.0,  # Llama 3.2
     "rope_scaling": {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                      "original_max_position_embeddings": 8192}},
    {"head_dim": 128, "rope_theta": 1000000.0,  # Qwen 2.5 at 131072 tokens
     "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}},
    {"head_dim": 64, "rope_theta": 10000.0,
     "rope_scaling": {"rope_type": "yarn", "factor": 40.0, "original_max_position_embeddings": 4096, "mscale": 1.0,
                      "mscale_all_dim": 0.7, "beta_fast": 16.0, "beta_slow": 2.0, "truncate": False}},
]


def make_ropes():
    results = []
    for rope in ROPES:
        embedding = LlamaRotaryEmbedding(LlamaConfig(
            hidden_size=4 * rope["head_dim"], num_attention_heads=4, max_position_embeddings=131072, **rope))
        results.append({"config": {"max_position_embeddings": 131072} | rope,
                        "frequencies": embedding.inv_freq.tolist(),
                        "attention_factor": embedding.attention_scaling})
    path = TESTS / "models/goldens/rope.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text("[\n" + ",\n".join(json.dumps(result) for result in results) + "\n]\n")


def load(folder, dtype):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager").eval()


def make(name, config, seed):
    folder = FOLDER / name
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder))
    # Drawn large, so that attention and norms are far from their trivial values.
    weights = {}
    for key, parameter in model.named_parameters():
        spread = 0.5 if parameter.dim() == 1 else 1.3 * parameter.shape[1] ** -0.5
        if "embed_tokens" in key:
            spread = 0.25 if config["tie_word_embeddings"] else 0.7
        weights[key] = (torch.randn(parameter.shape) * spread + ("norm" in key)).to(torch.bfloat16)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})

    model = load(folder, torch.float32)
    tokens = torch.randint(0, config["vocab_size"], (1, LENGTH))
    rows = torch.tensor([*range(0, LENGTH, 3), LENGTH - 1])
    expected = {"tokens": tokens[0].to(torch.int32), "rows": rows.to(torch.int32)}
    logits = model(tokens).logits[0]
    loss = torch.nn.functional.cross_entropy(logits[:-1], tokens[0, 1:])
    loss.backward()
    with torch.no_grad():
        expected["logits"] = logits[rows].contiguous()
        error = (load(folder, torch.bfloat16)(tokens).logits[0, rows].float() - logits[rows]).abs()
        expected["bf16_error"] = torch.stack([error.max(), error.mean()])
        # Without a mask, tokens equal to the padding's would be taken for padding.
        generated = model.generate(tokens[:, :PROMPT], attention_mask=torch.ones_like(tokens[:, :PROMPT]),
                                   pad_token_id=0, max_new_tokens=NEW, do_sample=False, output_logits=True,
                                   return_dict_in_generate=True)
        best = torch.cat(generated.logits).topk(2).values
    expected["greedy"] = generated.sequences[0, PROMPT:].to(torch.int32)
    expected["greedy_gap"] = (best[:, 0] - best[:, 1]).contiguous()
    for key, parameter in model.named_parameters():
        expected["grad." + key] = parameter.grad
    save_file({key: value.detach().contiguous() for key, value in expected.items()}, folder / "expected.safetensors")
    print(f"{name}: {sum(w.numel() for w in weights.values())} parameters, loss {loss.item():.3f}, largest logit "
          f"{logits.abs().max().item():.2f}, bf16 error {error.max().item():.4f} / {error.mean().item():.5f}, "
          f"{len(set(expected['greedy'].tolist()))} different greedy tokens, smallest lead "
          f"{expected['greedy_gap'].min().item():.1e}")


def main():
    make_ropes()
    shutil.rmtree(FOLDER, ignore_errors=True)
    for seed, (name, config) in enumerate(MODELS.items(), 60):  # seeds without a near tie among greedy tokens
        make(name, config, seed)


if __name__ == "__main__":
    main()
