// [model]: which decoder, from where, in which precision. Torch-free.
#pragma once

#include <cstdint>
#include <string>

namespace trireme::models {

/// [model.init]: a decoder with random weights and a byte-level tokenizer, where model.path is empty.
struct RandomModelConfig {
  int64_t hidden_size = 128;
  int64_t intermediate_size = 384;
  int64_t num_hidden_layers = 4;
  int64_t num_attention_heads = 4;
  int64_t num_key_value_heads = 4;
  int64_t max_position_embeddings = 512;
  double rope_theta = 10000.0;
  double initializer_range = 0.02;  // 0: each matrix by its fan-in, fan_in^-0.5
  double embedding_std = 0.0;       // 0: initializer_range
  bool tie_word_embeddings = false;
};

struct ModelConfig {
  std::string path;             // a Hugging Face folder; empty: model.init
  std::string tokenizer_path;   // another folder for the tokenizer; empty: model.path
  std::string dtype = "bf16";   // compute dtype: bf16 | fp32 (masters are fp32 always)
  bool random_weights = false;  // path gives shape and tokenizer only, weights are drawn from run.seed
  bool enable_gradient_checkpointing = false;  // training computes each block again in its backward pass
  RandomModelConfig init;
};

}  // namespace trireme::models
