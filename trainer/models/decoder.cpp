#include "trainer/models/decoder.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
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

// Of rows counted over the whole batch, those of the rank that has `shares[rank]` of them, counted from its
// first. `values`, if given, beside them.
struct OwnRows {
  std::vector<int32_t> rows, values;

  OwnRows(std::span<const int32_t> all, std::span<const int32_t> beside, const std::vector<int64_t>& shares,
          int rank) {
    const int64_t first = std::accumulate(shares.begin(), shares.begin() + rank, int64_t{0}),
                  last = first + shares[static_cast<size_t>(rank)];
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i] < first || all[i] >= last) continue;
      rows.push_back(all[i] - static_cast<int32_t>(first));
      if (!beside.empty()) values.push_back(beside[i]);
    }
  }
};

}  // namespace

Decoder::Decoder(const DecoderShape& shape, ParameterSet& parameters, at::ScalarType compute_dtype,
                 bool packed, TensorParallel tp, ContextParallel cp, PipelineStage stage)
    : shape_(shape),
      parameters_(parameters),
      compute_dtype_(compute_dtype),
      tp_(tp),
      cp_(cp),
      stage_(stage),
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
  const int64_t hidden = shape.hidden_size, tokens = vocabulary_pieces_[tp.rank()];
  if (stage.is_first() || holds_tied_copy(shape, stage))
    embedding_ = weight_at("model.embed_tokens.weight", tokens, hidden);
  const placement::LayerRange layers = layers_of_stages(shape, stage.count)[stage.index];
  for (int64_t i = layers.first; i < layers.end; ++i) add_layer(fmt::format("model.layers.{}.", i));
  if (stage.is_last()) {
    final_norm_ = weight_at("model.norm.weight", hidden, 0);
    if (shape.head == Head::value) {
      head_ = weight_at("score.weight", 1, hidden);
      head_bias_ = weight_at("score.bias", 1, 0);
    } else {
      head_ = shape.tie_word_embeddings ? embedding_ : weight_at("lm_head.weight", tokens, hidden);
    }
  }
  if (device() == at::kCPU)
    for (Weight* matrix : matrices())
      if (packed || matrix == &head_) matrix->packed = make_packed(matrix->value);
  refresh();
}

void Decoder::add_layer(const std::string& prefix) {
  const int64_t hidden = shape_.hidden_size, q_width = dims_.heads * dims_.head_dim,
                mlp = shape_.intermediate_size / tp_.size();
  Layer& layer = layers_.emplace_back();
  layer.block = parameters_.spec(parameters_.index_of(prefix + "input_layernorm.weight")).block;
  layer.input_norm = weight_at(prefix + "input_layernorm.weight", hidden, 0);
  layer.qkv = weight_at(prefix + "self_attn.q_proj.weight", dims_.qkv_width(), hidden);
  if (shape_.qkv_bias) layer.qkv_bias = weight_at(prefix + "self_attn.q_proj.bias", dims_.qkv_width(), 0);
  if (shape_.qk_norm) {
    layer.q_norm = weight_at(prefix + "self_attn.q_norm.weight", dims_.head_dim, 0);
    layer.k_norm = weight_at(prefix + "self_attn.k_norm.weight", dims_.head_dim, 0);
  }
  layer.attention_output = weight_at(prefix + "self_attn.o_proj.weight", hidden, q_width);
  if (shape_.attention_output_bias)
    layer.attention_output_bias = weight_at(prefix + "self_attn.o_proj.bias", hidden, 0);
  layer.mlp_norm = weight_at(prefix + "post_attention_layernorm.weight", hidden, 0);
  layer.gate_up = weight_at(prefix + "mlp.gate_proj.weight", 2 * mlp, hidden);
  layer.down = weight_at(prefix + "mlp.down_proj.weight", hidden, mlp);
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
  std::vector<Weight*> result;
  if (stage_.is_last()) result.push_back(&head_);
  for (Layer& layer : layers_)
    for (Weight* matrix : {&layer.qkv, &layer.attention_output, &layer.gate_up, &layer.down})
      result.push_back(matrix);
  return result;
}

void Decoder::refresh() {
  if (compute_flat_.defined()) {
    memory::allocate_memory(compute_flat_);
    compute_flat_.copy_(parameters_.flat());
  }
  for (Weight* matrix : matrices())
    if (matrix->packed) pack(matrix->value, *matrix->packed);
}

void Decoder::release_copies() {
  if (compute_flat_.defined()) memory::release_memory(compute_flat_);
  for (Weight* matrix : matrices())
    if (matrix->packed) matrix->packed->release();
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
  if (paged || !cp_.is_split()) return plan_of_rows(batch, last, paged);

  const auto context = plan_context(batch, dims_, cp_, device::computes(layers_.front().input_norm.value));
  BatchPlan plan;
  if (context->ring) {
    plan = plan_of_rows(context->mine, last, false);
  } else {
    context->whole = plan_of_rows(batch, last, false);
    plan = context->whole;
    plan.tokens_T = plan.tokens_T.narrow(0, context->first_row(), context->rows());
  }
  plan.context = context;
  return plan;
}

BatchPlan Decoder::plan_of_rows(const ForwardBatch& batch, int32_t last, bool paged) const {
  BatchPlan plan;
  plan.batch = &batch;
  if (device::computes(layers_.front().input_norm.value)) {
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
  const at::Tensor attended = kv             ? attention_paged(qkv, dims_, plan, *kv)
                              : plan.context ? context_attention(qkv, dims_, plan)
                                             : attention_packed(qkv, dims_, plan);
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
  const int number = layer.block;
  if (residency_) {
    residency_->before_forward(number);
    if (train) residual = on_the_way_back(residual, [this, number] { residency_->after_backward(number); });
  }
  if (train && recompute_blocks_)  // the graph keeps a copy of the plan
    residual = recomputed(
        [this, &layer, plan](const at::Tensor& x) { return block(layer, plan, nullptr, x); }, residual,
        shelf_);
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

at::Tensor Decoder::forward(const BatchPlan& plan, KvSlots* kv, bool train, const at::Tensor& input) const {
  at::Tensor residual = input;
  if (stage_.is_first())
    residual = tp_.is_split() ? sum_of_parts(embedding_part(embedding_, first_token_, plan, train), kv)
                              : embedding(embedding_, plan, train);
  for (size_t i = 0; i < layers_.size(); ++i)
    residual = block_between(static_cast<int64_t>(i), plan, kv ? &(*kv)[i] : nullptr, residual, train);
  if (!stage_.is_last()) return residual;
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
  TRIREME_CHECK(stage_.count == 1, "stage {} of {} computes some layers only", stage_.index, stage_.count);
  return forward_stage(batch, {});
}

at::Tensor Decoder::forward_stage(const ForwardBatch& batch, const at::Tensor& input) const {
  TRIREME_CHECK(stage_.is_first() != input.defined(), "only the first stage begins with tokens");
  const bool train = at::GradMode::is_enabled() && parameters_.has_gradients();
  return forward(plan_of(batch, false), nullptr, train, input);
}

int64_t Decoder::stage_rows(const ForwardBatch& batch) const {
  const int64_t mine = rows_of_ranks(batch.num_rows(), cp_.size())[static_cast<size_t>(cp_.rank())];
  return rows_of_ranks(mine, tp_.size())[static_cast<size_t>(tp_.rank())];
}

at::Tensor Decoder::logits(const at::Tensor& hidden, std::span<const int32_t> rows) const {
  const std::vector<int64_t> wide(rows.begin(), rows.end());
  const at::Tensor index = borrow(wide, at::kLong).to(hidden.device());
  return logits(hidden.index_select(0, index));
}

at::Tensor Decoder::logits(const at::Tensor& hidden) const {
  TRIREME_CHECK(shape_.head == Head::language_model, "a value head has no logits");
  const at::NoGradGuard no_gradients;
  const at::Tensor mine = head_.times(hidden, nullptr, at::kFloat);
  return tp_.is_split() ? gather_columns(mine, tp_, vocabulary_pieces_) : mine;
}

LogProbs Decoder::token_log_probs(const at::Tensor& hidden, std::span<const int32_t> rows,
                                  std::span<const int32_t> tokens, double temperature,
                                  bool entropy_gradient) const {
  TRIREME_CHECK(shape_.head == Head::language_model, "a value head has no logits");
  const auto of = [&](std::span<const int32_t> some_rows, std::span<const int32_t> some_tokens) {
    return models::token_log_probs(hidden, head_, some_rows, some_tokens, temperature, entropy_gradient,
                                   log_prob_chunk_rows(shape_.vocab_size),
                                   {tp_.is_split() ? tp_.group : nullptr, first_token_});
  };
  if (!cp_.is_split()) return of(rows, tokens);
  const std::vector<int64_t> shares = row_shares(hidden);
  const OwnRows own(rows, tokens, shares, cp_.rank());
  const LogProbs mine = of(own.rows, own.values);
  return {gather_by_row(mine.log_probs_N, rows, shares, cp_),
          gather_by_row(mine.entropy_N, rows, shares, cp_)};
}

std::vector<int64_t> Decoder::row_shares(const at::Tensor& hidden) const {
  const double rows = cp_.group->all_reduce_scalar(static_cast<double>(hidden.size(0)));
  return rows_of_ranks(std::llround(rows), cp_.size());
}

at::Tensor Decoder::row_values(const at::Tensor& hidden, std::span<const int32_t> rows) const {
  TRIREME_CHECK(shape_.head == Head::value, "a language model's head has no values");
  // tp ranks have the same rows: what the first one gives back is the sum over them.
  const auto of = [&](std::span<const int32_t> some) {
    return models::row_values(hidden, head_, head_bias_, some, /*gradients=*/tp_.rank() == 0);
  };
  if (!cp_.is_split()) return of(rows);
  const std::vector<int64_t> shares = row_shares(hidden);
  return gather_by_row(of(OwnRows(rows, {}, shares, cp_.rank()).rows), rows, shares, cp_);
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

void take_memory(KvSlots& slots) {
  const at::Tensor& first = slots.front().keys;  // all layers lie in its storage
  if (memory::has_memory(first)) return;
  memory::allocate_memory(first);
  if (first.is_cpu())
    prefer_large_pages(first.storage().mutable_data(), static_cast<int64_t>(first.storage().nbytes()));
  for (LayerKv& layer : slots) {
    layer.keys.zero_();
    layer.values.zero_();
  }
}

void give_memory_back(KvSlots& slots) {
  memory::release_memory(slots.front().keys);
}

int64_t Decoder::kv_bytes_per_slot() const {
  return 2 * shape_.num_hidden_layers * dims_.kv_heads * dims_.head_dim *
         (compute_dtype_ == at::kFloat ? 4 : 2);
}

}  // namespace trireme::models
