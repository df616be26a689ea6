#include "trainer/models/parameter_spec.h"

#include <fmt/format.h>

namespace trireme::models {

int64_t ParameterSpec::numel() const {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

std::vector<ParameterSpec> parameter_specs(const DecoderShape& shape) {
  using Kind = ParameterSpec::Kind;
  const int64_t hidden = shape.hidden_size, mlp = shape.intermediate_size;
  const int64_t q = shape.num_attention_heads * shape.head_dim,
                kv = shape.num_key_value_heads * shape.head_dim;
  std::vector<ParameterSpec> specs;
  specs.push_back({"model.embed_tokens.weight", {shape.vocab_size, hidden}, Kind::embedding});
  for (int64_t layer = 0; layer < shape.num_hidden_layers; ++layer) {
    const std::string prefix = fmt::format("model.layers.{}.", layer);
    specs.push_back({prefix + "input_layernorm.weight", {hidden}, Kind::norm});
    specs.push_back({prefix + "self_attn.q_proj.weight", {q, hidden}, Kind::matrix});
    specs.push_back({prefix + "self_attn.k_proj.weight", {kv, hidden}, Kind::matrix});
    specs.push_back({prefix + "self_attn.v_proj.weight", {kv, hidden}, Kind::matrix});
    if (shape.qkv_bias) {
      specs.push_back({prefix + "self_attn.q_proj.bias", {q}, Kind::bias});
      specs.push_back({prefix + "self_attn.k_proj.bias", {kv}, Kind::bias});
      specs.push_back({prefix + "self_attn.v_proj.bias", {kv}, Kind::bias});
    }
    if (shape.qk_norm) {
      specs.push_back({prefix + "self_attn.q_norm.weight", {shape.head_dim}, Kind::norm});
      specs.push_back({prefix + "self_attn.k_norm.weight", {shape.head_dim}, Kind::norm});
    }
    specs.push_back({prefix + "self_attn.o_proj.weight", {hidden, q}, Kind::residual_output});
    if (shape.attention_output_bias)
      specs.push_back({prefix + "self_attn.o_proj.bias", {hidden}, Kind::bias});
    specs.push_back({prefix + "post_attention_layernorm.weight", {hidden}, Kind::norm});
    specs.push_back({prefix + "mlp.gate_proj.weight", {mlp, hidden}, Kind::matrix});
    specs.push_back({prefix + "mlp.up_proj.weight", {mlp, hidden}, Kind::matrix});
    specs.push_back({prefix + "mlp.down_proj.weight", {hidden, mlp}, Kind::residual_output});
  }
  specs.push_back({"model.norm.weight", {hidden}, Kind::norm});
  if (!shape.tie_word_embeddings)
    specs.push_back({"lm_head.weight", {shape.vocab_size, hidden}, Kind::matrix});
  return specs;
}

}  // namespace trireme::models
