// Qwen2 and Qwen2.5: biases on q, k and v, always.
#include "trainer/models/family.h"

namespace trireme::models {
namespace {

void read(ConfigFields& fields, DecoderShape& shape) {
  shape.qkv_bias = true;
  shape.head_dim = fields.count("head_dim", kMaxHeadDim, shape.hidden_size / shape.num_attention_heads);
  fields.must_be("use_sliding_window", {false});
  fields.harmless({"sliding_window", "max_window_layers"});  // without use_sliding_window
  fields.must_be("use_mrope", {false});
  fields.refuse("dual_chunk_attention_config", "dual chunk attention is not supported");
}

void write(const DecoderShape& shape, nlohmann::ordered_json& config) {
  if (shape.head_dim * shape.num_attention_heads != shape.hidden_size) config["head_dim"] = shape.head_dim;
  config["use_sliding_window"] = false;
}

}  // namespace

extern const Family kQwen2{"qwen2", "Qwen2ForCausalLM", read, write};

}  // namespace trireme::models
