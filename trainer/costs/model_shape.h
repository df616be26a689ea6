// What of a decoder decides what it costs: its sizes, and how many elements the ranks of a layout hold of it.
// Torch-free, and read leniently: models::DecoderShape is what refuses a config.json that cannot be used.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/models/model_config.h"

namespace trireme::costs {

struct ModelShape {
  std::string name;
  int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0, num_hidden_layers = 0;
  int64_t num_attention_heads = 0, num_key_value_heads = 0, head_dim = 0;
  bool tie_word_embeddings = false, qkv_bias = false, attention_output_bias = false, qk_norm = false;
  bool value_head = false;  // one number a row instead of logits (a critic)

  int64_t q_width() const { return num_attention_heads * head_dim; }
  int64_t kv_width() const { return num_key_value_heads * head_dim; }
  int64_t num_parameters() const;
  /// Multiplications and additions of a row's products in one layer, and in the head; without attention.
  double flops_of_layer() const;
  double flops_of_head() const;
  /// Of a row that looks at `keys` others, in one layer.
  double flops_of_attention(double keys) const { return 4.0 * static_cast<double>(q_width()) * keys; }
  /// Keys and values of all layers that one of `tp` ranks holds; kv heads fewer than the ranks are repeated.
  int64_t kv_bytes_per_token(int64_t element, int64_t tp = 1) const;
};

/// Of the checkpoint that `model` names (its config.json), or else of the model that it describes. Throws io
/// or invalid_config, naming file and every field that is missing.
ModelShape model_shape(const models::ModelConfig& model);
/// Of a config.json, a folder that holds one, or a published shape ("llama-3.1-70b"). Throws invalid_config
/// with the nearest name.
ModelShape find_shape(const std::string& text);
std::vector<std::string> published_shapes();

/// Elements that the first of `tp` ranks holds.
struct SliceSizes {
  int64_t embedding = 0;       // block 0
  int64_t layer = 0;           // each of the blocks between
  int64_t last = 0;            // the final norm and a head of its own
  int64_t layer_matrices = 0;  // of a layer, what products read
  int64_t largest_matrix = 0;  // of a layer: gate and up side by side, mostly
  int64_t head = 0;            // the matrix that makes logits, be it the embedding
};
SliceSizes slice_sizes(const ModelShape& shape, int64_t tp);

/// The tp sizes up to `most` that divide heads and MLP.
std::vector<int64_t> possible_tp(const ModelShape& shape, int64_t most);

}  // namespace trireme::costs
