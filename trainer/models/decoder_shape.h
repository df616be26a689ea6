// The shape of a decoder, as its config.json says it. Torch-free.
#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "trainer/models/rope.h"

namespace trireme::models {

inline constexpr int64_t kMaxHeadDim = 256;

/// What stands on the last norm: logits over the vocabulary, or one number a row (a critic).
enum class Head { language_model, value };
/// value where config.json names a classifier.
Head head_of(const std::string& folder);

struct DecoderShape {
  std::string model_type = "qwen2";  // a family's name, see family.h
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;
  int64_t head_dim = 0;
  int64_t max_position_embeddings = 0;
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  RopeScaling rope_scaling;
  double initializer_range = 0.02;   // 0: see ParameterSet::initialize
  bool tie_word_embeddings = false;  // of a language model's head
  Head head = Head::language_model;
  // What the family says of the layers.
  bool qkv_bias = true;
  bool attention_output_bias = false;
  bool qk_norm = false;     // RMS norm of each head of q and k, before they are rotated
  std::string config_text;  // the config.json it was read from; empty for a model made here

  int64_t num_parameters() const;
  /// Reads config.json's object. Throws invalid_config naming every field that is missing, out of range, not
  /// supported or not known. A value head goes on a language model's decoder too (its own head is left out),
  /// and is what Hugging Face calls token or sequence classification, with one label.
  static DecoderShape from_json(const nlohmann::json& config, const std::string& where,
                                Head head = Head::language_model);
  static DecoderShape from_folder(const std::string& folder, Head head = Head::language_model);
  /// A config.json that `transformers` loads: the object it was read from with only its dtype replaced, or
  /// one written from the fields above. With a value head it is that of a token classifier with one label.
  nlohmann::ordered_json to_json(const std::string& torch_dtype) const;
};

}  // namespace trireme::models
