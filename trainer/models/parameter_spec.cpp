#include "trainer/models/parameter_spec.h"

#include <algorithm>

#include <fmt/format.h>

namespace trireme::models {

int64_t ParameterSpec::numel() const {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

std::vector<int64_t> ParameterSpec::whole_shape() const {
  std::vector<int64_t> extents = shape;
  if (split_dim != tensors::Split::kWhole) extents[split_dim] = whole;
  return extents;
}

std::vector<ParameterSpec> parameter_specs(const DecoderShape& shape) {
  using Kind = ParameterSpec::Kind;
  const int64_t hidden = shape.hidden_size, mlp = shape.intermediate_size;
  const int64_t q = shape.num_attention_heads * shape.head_dim,
                kv = shape.num_key_value_heads * shape.head_dim;
  std::vector<ParameterSpec> specs;
  int block = 0;
  const auto add = [&](std::string name, std::vector<int64_t> extents, Kind kind, bool joins = false) {
    ParameterSpec& spec = specs.emplace_back();
    spec.name = std::move(name);
    spec.shape = std::move(extents);
    spec.kind = kind;
    spec.index = static_cast<int>(specs.size()) - 1;
    spec.block = block;
    spec.joins_previous = joins;
  };
  add("model.embed_tokens.weight", {shape.vocab_size, hidden}, Kind::embedding);
  for (int64_t layer = 0; layer < shape.num_hidden_layers; ++layer) {
    const std::string prefix = fmt::format("model.layers.{}.", layer);
    ++block;
    add(prefix + "input_layernorm.weight", {hidden}, Kind::norm);
    add(prefix + "self_attn.q_proj.weight", {q, hidden}, Kind::matrix);
    add(prefix + "self_attn.k_proj.weight", {kv, hidden}, Kind::matrix, true);
    add(prefix + "self_attn.v_proj.weight", {kv, hidden}, Kind::matrix, true);
    if (shape.qkv_bias) {
      add(prefix + "self_attn.q_proj.bias", {q}, Kind::bias);
      add(prefix + "self_attn.k_proj.bias", {kv}, Kind::bias, true);
      add(prefix + "self_attn.v_proj.bias", {kv}, Kind::bias, true);
    }
    if (shape.qk_norm) {
      add(prefix + "self_attn.q_norm.weight", {shape.head_dim}, Kind::norm);
      add(prefix + "self_attn.k_norm.weight", {shape.head_dim}, Kind::norm);
    }
    add(prefix + "self_attn.o_proj.weight", {hidden, q}, Kind::residual_output);
    if (shape.attention_output_bias) add(prefix + "self_attn.o_proj.bias", {hidden}, Kind::bias);
    add(prefix + "post_attention_layernorm.weight", {hidden}, Kind::norm);
    add(prefix + "mlp.gate_proj.weight", {mlp, hidden}, Kind::matrix);
    add(prefix + "mlp.up_proj.weight", {mlp, hidden}, Kind::matrix, true);
    add(prefix + "mlp.down_proj.weight", {hidden, mlp}, Kind::residual_output);
  }
  ++block;
  add("model.norm.weight", {hidden}, Kind::norm);
  if (shape.head == Head::value) {  // as Hugging Face's token classifiers have it
    add("score.weight", {1, hidden}, Kind::matrix);
    add("score.bias", {1}, Kind::bias);
  } else if (!shape.tie_word_embeddings) {
    add("lm_head.weight", {shape.vocab_size, hidden}, Kind::matrix);
  }
  return specs;
}

std::vector<tensors::Split> tensor_splits(const DecoderShape& shape) {
  using tensors::Fit, tensors::Split;
  // Pieces of up to 64 tokens, at least 64 pieces where there are so many tokens.
  int64_t piece = 64;
  while (piece > 1 && shape.vocab_size / piece < 64) piece /= 2;
  std::vector<Split> splits;
  for (const ParameterSpec& spec : parameter_specs(shape)) {
    const auto is = [&](const char* part) { return spec.name.find(part) != std::string::npos; };
    if (is("embed_tokens") || is("lm_head"))
      splits.push_back({0, piece, Fit::uneven});
    else if (is("q_proj"))
      splits.push_back({0, shape.head_dim, Fit::exact});
    else if (is("k_proj") || is("v_proj"))
      splits.push_back({0, shape.head_dim, Fit::repeat});
    else if (is("o_proj.weight"))
      splits.push_back({1, shape.head_dim, Fit::exact});
    else if (is("gate_proj") || is("up_proj"))
      splits.push_back({0, 1, Fit::exact});
    else if (is("down_proj"))
      splits.push_back({1, 1, Fit::exact});
    else
      splits.push_back({});
  }
  return splits;
}

std::vector<tensors::TensorSpec> tensor_specs(const DecoderShape& shape) {
  std::vector<tensors::TensorSpec> tensors;
  for (const ParameterSpec& spec : parameter_specs(shape)) {
    tensors::TensorSpec& tensor = tensors.emplace_back();
    tensor.name = spec.name;
    tensor.dims = spec.shape;
    tensor.block = spec.block;
    tensor.joins_previous = spec.joins_previous;
  }
  if (shape.tie_word_embeddings && shape.head == Head::language_model)
    tensors.front().tied_names = {"lm_head.weight"};
  return tensors;
}

std::vector<ParameterSpec> parameter_specs(const DecoderShape& shape, int tp, int t) {
  std::vector<ParameterSpec> specs = parameter_specs(shape);
  if (tp == 1) return specs;
  const auto splits = tensor_splits(shape);
  const auto tensors = tensor_specs(shape);
  for (size_t i = 0; i < specs.size(); ++i) {
    ParameterSpec& spec = specs[i];
    const tensors::Box slice = tensors::slice_of(tensors[i], splits[i], tp, t);
    spec.split_dim = splits[i].dim;
    for (int other = 0; other < tp; ++other)
      spec.holders += other != t && tensors::slice_of(tensors[i], splits[i], tp, other) == slice;
    if (spec.split_dim == tensors::Split::kWhole) continue;
    spec.whole = spec.shape[spec.split_dim];
    spec.first = slice.begin[spec.split_dim];
    spec.shape[spec.split_dim] = slice.extent(spec.split_dim);
  }
  return specs;
}

void for_each_stretch(const ParameterSpec& spec, int64_t begin, int64_t end,
                      const std::function<void(int64_t, int64_t, int64_t)>& stretch) {
  if (spec.split_dim <= 0) {  // rows of the whole, end to end
    const int64_t row = spec.split_dim == 0 && spec.shape[0] > 0 ? spec.numel() / spec.shape[0] : 0;
    if (begin < end) stretch(spec.first * row + begin, begin, end - begin);
    return;
  }
  const int64_t columns = spec.shape[1];
  for (int64_t at = begin; at < end;) {
    const int64_t row = at / columns, column = at % columns, count = std::min(columns - column, end - at);
    stretch(row * spec.whole + spec.first + column, at, count);
    at += count;
  }
}

}  // namespace trireme::models
