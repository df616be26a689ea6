// The shape of a decoder, as its config.json says it. Torch-free.
#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace trireme::models {

struct DecoderShape {
  std::string model_type = "qwen2";
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;
  int64_t head_dim = 0;  // hidden_size / num_attention_heads where config.json is silent
  int64_t max_position_embeddings = 0;
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  double initializer_range = 0.02;  // 0: see ParameterSet::initialize
  bool tie_word_embeddings = false;
  std::string config_text;  // the config.json it was read from; empty for a model made here

  int64_t num_parameters() const;
  /// Reads config.json's object. Throws invalid_config naming every field that is missing, out of
  /// range or not supported (another model_type, sliding windows, rope scaling, ...).
  static DecoderShape from_json(const nlohmann::json& config, const std::string& where);
  static DecoderShape from_folder(const std::string& folder);
  /// A config.json that `transformers` loads: the object it was read from with only its dtype replaced, or
  /// one written from the fields above.
  nlohmann::ordered_json to_json(const std::string& torch_dtype) const;
};

}  // namespace trireme::models
