// Llama 2 and 3.x.
#include "trainer/models/family.h"

namespace trireme::models {
namespace {

void read(ConfigFields& fields, DecoderShape& shape) {
  shape.qkv_bias = shape.attention_output_bias = fields.flag("attention_bias", false);
  shape.head_dim = fields.count("head_dim", kMaxHeadDim, shape.hidden_size / shape.num_attention_heads);
  fields.must_be("mlp_bias", {false});
  fields.must_be("pretraining_tp", {1});
  // Of models that others trained in this family's form.
  fields.must_be("rope_interleaved", {false});
  fields.harmless({"is_llama_config", "transformers.js_config"});
}

void write(const DecoderShape& shape, nlohmann::ordered_json& config) {
  config["head_dim"] = shape.head_dim;
  config["attention_bias"] = shape.qkv_bias;
  config["mlp_bias"] = false;
}

}  // namespace

extern const Family kLlama{"llama", "LlamaForCausalLM", read, write};

}  // namespace trireme::models
