// The keys of [model] and [model.init].
#include "trainer/config/schema_rules.h"

namespace trireme::config {

void add_model(Keys& k) {
  k.push_back({"model.path", AT(model.path), any(), "",
               "Folder of a Hugging Face checkpoint (config.json, tokenizer.json, *.safetensors); empty "
               "draws a new model of the shape in [model.init]."});
  k.push_back({"model.tokenizer_path", AT(model.tokenizer_path), any(), "",
               "Folder with the tokenizer.json to use where it is not model.path."});
  k.push_back({"model.dtype", AT(model.dtype), one_of({"bf16", "fp32"}), "",
               "Precision of the arithmetic in forward and backward; master weights and sums are fp32 "
               "always. fp32 costs time and memory, and helps when a number is to be traced.",
               "actor.fsdp_config.dtype, rollout.dtype"});
  k.push_back({"model.random_weights", AT(model.random_weights), any(), "",
               "Takes shape and tokenizer from model.path but draws the weights from run.seed: for "
               "benchmarks and tests at real sizes without the real weights.",
               "rollout.load_format"});
  k.push_back({"model.enable_gradient_checkpointing", AT(model.enable_gradient_checkpointing), any(), "",
               "Training keeps only the input of each layer and computes the layer again in the backward "
               "pass: much less memory for long sequences, up to a third more time, the same numbers."});
  k.push_back({"model.enable_activation_offload", AT(offload.activations), any(), "",
               "Brings these inputs out of the device's memory until the backward pass comes to their layer, "
               "while others are computed: two are there at a time. Needs enable_gradient_checkpointing."});
  k.push_back({"model.init.hidden_size", AT(model.init.hidden_size), between(8, 65536), "",
               "Width of the new model; must divide by num_attention_heads into heads of an even size."});
  k.push_back({"model.init.intermediate_size", AT(model.init.intermediate_size), between(8, 262144), "",
               "Width inside the MLP of each layer; about three times hidden_size is usual."});
  k.push_back({"model.init.num_hidden_layers", AT(model.init.num_hidden_layers), between(1, 1024), "layers",
               "Depth of the new model."});
  k.push_back({"model.init.num_attention_heads", AT(model.init.num_attention_heads), between(1, 1024),
               "heads", "Heads that ask, in each layer's attention."});
  k.push_back(
      {"model.init.num_key_value_heads", AT(model.init.num_key_value_heads), between(1, 1024), "heads",
       "Heads that are looked at; fewer than num_attention_heads shrink the KV cache, and must divide it."});
  k.push_back({"model.init.max_position_embeddings", AT(model.init.max_position_embeddings),
               between(8, 16777216), "tokens",
               "The longest sequence (prompt and response) that the new model is meant for."});
  k.push_back({"model.init.rope_theta", AT(model.init.rope_theta), above(0), "",
               "Base of the rotary embedding's wavelengths; raise it for long sequences, lower it for very "
               "short ones."});
  k.push_back(
      {"model.init.initializer_range", AT(model.init.initializer_range), between(0.0, 10.0), "",
       "Standard deviation of the new weights; 0: each matrix by its inputs, fan_in^-0.5, which lets a small "
       "model learn fast."});
  k.push_back(
      {"model.init.embedding_std", AT(model.init.embedding_std), between(0.0, 10.0), "",
       "Standard deviation of the new embedding, where it shall differ; 0: model.init.initializer_range, "
       "or 0.02 where that is 0."});
  k.push_back({"model.init.tie_word_embeddings", AT(model.init.tie_word_embeddings), any(), "",
               "Uses the embedding's matrix as the output head too, which saves parameters."});
}

}  // namespace trireme::config
