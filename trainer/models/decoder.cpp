#include "trainer/models/decoder.h"

#include <algorithm>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include "runtime/base/error.h"
#include "trainer/models/device_ops.h"
#include "trainer/models/large_pages.h"
#include "trainer/models/packed_linear.h"
#include "trainer/models/recompute.h"

namespace trireme::models {
namespace {

template <typename T>
at::Tensor borrow(const std::vector<T>& values, at::ScalarType dtype) {
  return at::from_blob(const_cast<T*>(values.data()), {static_cast<int64_t>(values.size())},
                       at::TensorOptions().dtype(dtype));
}

}  // namespace

Decoder::Decoder(const DecoderShape& shape, ParameterSet& parameters, at::ScalarType compute_dtype,
                 bool packed, TensorParallel tp)
    : shape_(shape),
      parameters_(parameters),
      compute_dtype_(compute_dtype),
      tp_(tp),
      dims_{shape.num_attention_heads / tp.size(),
            std::max<int64_t>(1, shape.num_key_value_heads / tp.size()), shape.head_dim},
      rope_(shape) {
  TRIREME_CHECK(parameters.is_flat() || compute_dtype == parameters.dtype(),
                "a set in blocks is computed with in its own type");
  if (compute_dtype != parameters.dtype())
    compute_flat_ = at::empty_like(parameters.flat(), parameters.flat().options().dtype(compute_dtype));
  for (int t = 0; t < tp.size(); ++t) {
    vocabulary_pieces_.push_back(parameter_specs(shape, tp.size(), t).front().shape[0]);
    if (t < tp.rank()) first_token_ += vocabulary_pieces_.back();
  }
  const int64_t hidden = shape.hidden_size, q_width = dims_.heads * dims_.head_dim;
  const int64_t tokens = vocabulary_pieces_[tp.rank()], mlp = shape.intermediate_size / tp.size();
  embedding_ = weight_at("model.embed_tokens.weight", tokens, hidden);
  for (int64_t i = 0; i < shape.num_hidden_layers; ++i) {
    const std::string prefix = fmt::format("model.layers.{}.", i);
    Layer& layer = layers_.emplace_back();
    layer.input_norm = weight_at(prefix + "input_layernorm.weight", hidden, 0);
    layer.qkv = weight_at(prefix + "self_attn.q_proj.weight", dims_.qkv_width(), hidden);
    if (shape.qkv_bias) layer.qkv_bias = weight_at(prefix + "self_attn.q_proj.bias", dims_.qkv_width(), 0);
    if (shape.qk_norm) {
      layer.q_norm = weight_at(prefix + "self_attn.q_norm.weight", dims_.head_dim, 0);
      layer.k_norm = weight_at(prefix + "self_attn.k_norm.weight", dims_.head_dim, 0);
    }
    layer.attention_output = weight_at(prefix + "self_attn.o_proj.weight", hidden, q_width);
    if (shape.attention_output_bias)
      layer.attention_output_bias = weight_at(prefix + "self_attn.o_proj.bias", hidden, 0);
    layer.mlp_norm = weight_at(prefix + "post_attention_layernorm.weight", hidden, 0);
    layer.gate_up = weight_at(prefix + "mlp.gate_proj.weight", 2 * mlp, hidden);
    layer.down = weight_at(prefix + "mlp.down_proj.weight", hidden, mlp);
  }
  final_norm_ = weight_at("model.norm.weight", hidden, 0);
  head_ = shape.tie_word_embeddings ? embedding_ : weight_at("lm_head.weight", tokens, hidden);
  if (device() == at::kCPU)
    for (Weight* matrix : matrices())
      if (packed || matrix == &head_) matrix->packed = make_packed(matrix->value);
  refresh();
}

// The matrix (or vector, where columns is 0) that begins at parameter `first`.
Weight Decoder::weight_at(const std::string& first, int64_t rows, int64_t columns) {
  const size_t index = parameters_.index_of(first);
  const int block = parameters_.spec(index).block;
  const int64_t offset = parameters_.offset(index), begin = parameters_.block_begin(block);
  const auto view = [&](const at::Tensor& values, int64_t at) {
    const at::Tensor part = values.narrow(0, at, rows * std::max<int64_t>(columns, 1));
    return columns == 0 ? part : part.view({rows, columns});
  };
  Weight weight;
  weight.value =
      compute_flat_.defined() ? view(compute_flat_, offset) : view(parameters_.block(block), offset - begin);
  if (parameters_.has_gradients()) weight.gradient = view(parameters_.block_gradient(block), offset - begin);
  return weight;
}

std::vector<Weight*> Decoder::matrices() {
  std::vector<Weight*> result{&head_};
  for (Layer& layer : layers_)
    for (Weight* matrix : {&layer.qkv, &layer.attention_output, &layer.gate_up, &layer.down})
      result.push_back(matrix);
  return result;
}

void Decoder::refresh() {
  if (compute_flat_.defined()) compute_flat_.copy_(parameters_.flat());
  for (Weight* matrix : matrices())
    if (matrix->packed) pack(matrix->value, *matrix->packed);
}

BatchPlan Decoder::plan_of(const ForwardBatch& batch, bool paged) const {
  TRIREME_CHECK(batch.num_rows() > 0 && batch.positions.size() == batch.tokens.size(),
                "a forward of {} rows, {} positions", batch.num_rows(), batch.positions.size());
  TRIREME_CHECK(!paged || batch.slots.size() == batch.tokens.size(), "{} rows but {} slots",
                batch.tokens.size(), batch.slots.size());
  int32_t last = 0;
  for (const int32_t position : batch.positions) {
    TRIREME_CHECK(position >= 0 && position < shape_.max_position_embeddings,
                  "position {} is beyond the model's {}", position, shape_.max_position_embeddings);
    last = std::max(last, position);
  }
  BatchPlan plan;
  plan.batch = &batch;
  if (device::computes(embedding_.value)) {
    const auto group = static_cast<int32_t>(dims_.heads / dims_.kv_heads);
    DeviceBatch on_device =
        upload(batch, group, {paged ? kPartialRows : 0, dims_.kv_heads * (dims_.head_dim + 2)}, device());
    on_device.rope = rope_on_device(last + 1);
    plan.tokens_T = on_device.tokens_T;
    plan.device = std::make_shared<const DeviceBatch>(std::move(on_device));
  } else {
    plan.positions_T = borrow(batch.positions, at::kInt);
    plan.tokens_T = borrow(batch.tokens, at::kInt).to(at::kLong);
    plan.rope = rope_.up_to(last + 1);
  }
  return plan;
}

at::Tensor Decoder::all_rows(const at::Tensor& rows, const BatchPlan& plan, bool paged) const {
  return tp_.is_split() && !paged ? gather_rows(rows, tp_, plan.tokens_T.size(0)) : rows;
}

at::Tensor Decoder::sum_of_parts(const at::Tensor& part, bool paged) const {
  if (!tp_.is_split()) return part;
  return paged ? sum_over_ranks(part, tp_) : scatter_sum(part, tp_);
}

at::Tensor Decoder::block(const Layer& layer, const BatchPlan& plan, LayerKv* kv, at::Tensor residual) const {
  const double eps = shape_.rms_norm_eps;
  const at::Tensor rows = all_rows(rms_norm(residual, layer.input_norm, eps), plan, kv);
  at::Tensor qkv = linear(rows, layer.qkv, &layer.qkv_bias);
  if (shape_.qk_norm) qkv = qk_norm(qkv, layer.q_norm, layer.k_norm, dims_, eps);
  const at::Tensor attended =
      kv ? attention_paged(qkv, dims_, plan, *kv) : attention_packed(qkv, dims_, plan);
  // A bias belongs to the sum, not to each of its parts.
  const Weight* bias = tp_.is_split() ? nullptr : &layer.attention_output_bias;
  at::Tensor output = sum_of_parts(linear(attended, layer.attention_output, bias), kv);
  if (tp_.is_split() && layer.attention_output_bias.value.defined())
    output = add_bias(output, layer.attention_output_bias);
  const at::Tensor normed = add_rms_norm(residual, output, layer.mlp_norm, eps);
  const at::Tensor inner = silu_mul(linear(all_rows(normed, plan, kv), layer.gate_up, nullptr));
  return residual + sum_of_parts(linear(inner, layer.down, nullptr), kv);
}

// The block while its weights are there.
at::Tensor Decoder::block_between(int64_t index, const BatchPlan& plan, LayerKv* kv, at::Tensor residual,
                                  bool train) const {
  const Layer& layer = layers_[index];
  const int number = static_cast<int>(index) + 1;
  if (residency_) {
    residency_->before_forward(number);
    if (train) residual = on_the_way_back(residual, [this, number] { residency_->after_backward(number); });
  }
  if (train && recompute_blocks_)  // the graph keeps a copy of the plan
    residual = recomputed(
        [this, &layer, plan](const at::Tensor& x) { return block(layer, plan, nullptr, x); }, residual);
  else
    residual = block(layer, plan, kv, residual);
  if (residency_) {
    residency_->after_forward(number);
    if (train) residual = on_the_way_back(residual, [this, number] { residency_->before_backward(number); });
  }
  return residual;
}

at::Tensor Decoder::rope_on_device(int64_t positions) const {
  return rope_.up_to(positions, device());
}

at::Tensor Decoder::forward(const BatchPlan& plan, KvSlots* kv, bool train) const {
  at::Tensor residual = tp_.is_split()
                            ? sum_of_parts(embedding_part(embedding_, first_token_, plan, train), kv)
                            : embedding(embedding_, plan, train);
  for (size_t i = 0; i < layers_.size(); ++i)
    residual = block_between(static_cast<int64_t>(i), plan, kv ? &(*kv)[i] : nullptr, residual, train);
  return all_rows(rms_norm(residual, final_norm_, shape_.rms_norm_eps), plan, kv);
}

at::Tensor Decoder::forward_paged(const ForwardBatch& batch, KvSlots& kv) const {
  const at::NoGradGuard no_gradients;
  return forward(plan_of(batch, true), &kv, false);
}

at::Tensor Decoder::forward_paged(const DeviceBatch& batch, KvSlots& kv) const {
  const at::NoGradGuard no_gradients;
  BatchPlan plan;
  plan.tokens_T = batch.tokens_T;
  plan.device = std::make_shared<const DeviceBatch>(batch);
  return forward(plan, &kv, false);
}

at::Tensor Decoder::forward_packed(const ForwardBatch& batch) const {
  return forward(plan_of(batch, false), nullptr, at::GradMode::is_enabled() && parameters_.has_gradients());
}

at::Tensor Decoder::logits(const at::Tensor& hidden, std::span<const int32_t> rows) const {
  const std::vector<int64_t> wide(rows.begin(), rows.end());
  const at::Tensor index = borrow(wide, at::kLong).to(hidden.device());
  return logits(hidden.index_select(0, index));
}

at::Tensor Decoder::logits(const at::Tensor& hidden) const {
  const at::NoGradGuard no_gradients;
  const at::Tensor mine = head_.times(hidden, nullptr, at::kFloat);
  return tp_.is_split() ? gather_columns(mine, tp_, vocabulary_pieces_) : mine;
}

LogProbs Decoder::token_log_probs(const at::Tensor& hidden, std::span<const int32_t> rows,
                                  std::span<const int32_t> tokens, double temperature,
                                  bool entropy_gradient) const {
  return models::token_log_probs(hidden, head_, rows, tokens, temperature, entropy_gradient,
                                 log_prob_chunk_rows(shape_.vocab_size),
                                 {tp_.is_split() ? tp_.group : nullptr, first_token_});
}

KvSlots Decoder::make_kv_slots(int64_t num_slots) const {
  const auto options = at::TensorOptions().dtype(compute_dtype_).device(device());
  // All layers in one piece: its pages can be large ones.
  const at::Tensor all =
      at::empty({shape_.num_hidden_layers, 2, num_slots, dims_.kv_heads, dims_.head_dim}, options);
  if (all.is_cpu()) prefer_large_pages(all.data_ptr(), static_cast<int64_t>(all.nbytes()));
  all.zero_();
  KvSlots slots;
  for (int64_t i = 0; i < shape_.num_hidden_layers; ++i) {
    const at::Tensor layer = all.select(0, i);
    slots.push_back({layer.select(0, 0), layer.select(0, 1)});
  }
  return slots;
}

int64_t Decoder::kv_bytes_per_slot() const {
  return 2 * shape_.num_hidden_layers * dims_.kv_heads * dims_.head_dim *
         (compute_dtype_ == at::kFloat ? 4 : 2);
}

}  // namespace trireme::models
