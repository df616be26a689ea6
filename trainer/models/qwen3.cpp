// Qwen3, dense: each head of q and k is normalised before it is rotated; head_dim stands by itself.
#include "trainer/models/family.h"

namespace trireme::models {
namespace {

void read(ConfigFields& fields, DecoderShape& shape) {
  shape.qk_norm = true;
  shape.qkv_bias = shape.attention_output_bias = fields.flag("attention_bias", false);
  shape.head_dim = fields.count("head_dim", kMaxHeadDim, 128);  // not hidden_size / num_attention_heads
  fields.must_be("use_sliding_window", {false});
  fields.harmless({"sliding_window", "max_window_layers"});  // without use_sliding_window
}

void write(const DecoderShape& shape, nlohmann::ordered_json& config) {
  config["head_dim"] = shape.head_dim;
  config["attention_bias"] = shape.qkv_bias;
  config["use_sliding_window"] = false;
}

}  // namespace

extern const Family kQwen3{"qwen3", "Qwen3ForCausalLM", read, write};

}  // namespace trireme::models
