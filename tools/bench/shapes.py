"""The shapes that are measured, and models of random weights in them: for llama.cpp and for transformers."""

SHAPES = {
    "494M": dict(hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14,
                 num_key_value_heads=2, vocab_size=151936),
    "25M": dict(hidden_size=512, intermediate_size=1408, num_hidden_layers=8, num_attention_heads=8,
                num_key_value_heads=2, vocab_size=4096),
}


def config_of(name):
    """A config.json of the Qwen2 family: biases on q, k and v, tied embeddings."""
    return dict(SHAPES[name], architectures=["Qwen2ForCausalLM"], model_type="qwen2", tie_word_embeddings=True,
                hidden_act="silu", rms_norm_eps=1e-6, rope_theta=1000000.0, max_position_embeddings=4096,
                bos_token_id=0, eos_token_id=0, torch_dtype="bfloat16")


def write_gguf(name, path):
    """Random weights in bf16 (norms and biases in fp32, as converters write them)."""
    import gguf
    import numpy as np

    shape = SHAPES[name]
    hidden, inner, heads, kv_heads = (shape[key] for key in (
        "hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads"))
    kv_width = hidden // heads * kv_heads
    writer = gguf.GGUFWriter(path, "qwen2")
    writer.add_block_count(shape["num_hidden_layers"])
    writer.add_context_length(32768)
    writer.add_embedding_length(hidden)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(1000000.0)
    writer.add_vocab_size(shape["vocab_size"])
    writer.add_tokenizer_model("none")
    random = np.random.default_rng(0)

    def add(key, *size):
        values = random.uniform(-0.05, 0.05, size).astype(np.float32)
        if len(size) == 1:
            writer.add_tensor(key, np.ones(size, np.float32) if "norm" in key else values)
        else:
            writer.add_tensor(key, gguf.quants.quantize(values, gguf.GGMLQuantizationType.BF16),
                              raw_dtype=gguf.GGMLQuantizationType.BF16)

    add("token_embd.weight", shape["vocab_size"], hidden)
    add("output_norm.weight", hidden)
    for i in range(shape["num_hidden_layers"]):
        add(f"blk.{i}.attn_norm.weight", hidden)
        add(f"blk.{i}.ffn_norm.weight", hidden)
        for key, width in (("q", hidden), ("k", kv_width), ("v", kv_width)):
            add(f"blk.{i}.attn_{key}.weight", width, hidden)
            add(f"blk.{i}.attn_{key}.bias", width)
        add(f"blk.{i}.attn_output.weight", hidden, hidden)
        add(f"blk.{i}.ffn_gate.weight", inner, hidden)
        add(f"blk.{i}.ffn_up.weight", inner, hidden)
        add(f"blk.{i}.ffn_down.weight", hidden, inner)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def hf_model(name, dtype):
    """The same shape in transformers, its weights random."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    config = {key: value for key, value in config_of(name).items()
              if key not in ("architectures", "model_type", "torch_dtype")}
    return Qwen2ForCausalLM(Qwen2Config(**config)).to(getattr(torch, dtype)).eval()
