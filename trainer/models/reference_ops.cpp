#include "trainer/models/reference_ops.h"

#include <cmath>
#include <limits>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softmax.h>

namespace trireme::models::reference {

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  const at::Tensor wide = x.to(at::kFloat);
  const at::Tensor normed = wide * at::rsqrt(wide.pow(2).mean(-1, true) + eps);
  return (normed * weight.to(at::kFloat)).to(x.scalar_type());
}

at::Tensor qk_norm(const at::Tensor& qkv, const at::Tensor& q_weight, const at::Tensor& k_weight,
                   const AttentionDims& dims, double eps) {
  const int64_t rows = qkv.size(0), q_width = dims.heads * dims.head_dim,
                kv_width = dims.kv_heads * dims.head_dim;
  const auto parts = qkv.split_with_sizes({q_width, kv_width, kv_width}, 1);
  const auto normed = [&](const at::Tensor& x, const at::Tensor& weight) {
    return rms_norm(x.reshape({rows, -1, dims.head_dim}), weight, eps).reshape({rows, -1});
  };
  return at::cat({normed(parts[0], q_weight), normed(parts[1], k_weight), parts[2]}, 1);
}

at::Tensor silu_mul(const at::Tensor& gate_up) {
  const auto halves = gate_up.chunk(2, -1);
  return (at::silu(halves[0].to(at::kFloat)) * halves[1].to(at::kFloat)).to(gate_up.scalar_type());
}

at::Tensor rotary(const at::Tensor& x, const at::Tensor& positions, const at::Tensor& rope) {
  const auto halves =
      rope.to(x.device()).index_select(0, positions.to(x.device(), at::kLong)).unsqueeze(1).chunk(2, -1);
  const auto parts = x.to(at::kFloat).chunk(2, -1);
  return at::cat({parts[0] * halves[0] - parts[1] * halves[1], parts[1] * halves[0] + parts[0] * halves[1]},
                 -1)
      .to(x.scalar_type());
}

at::Tensor attention(const at::Tensor& q, const at::Tensor& keys, const at::Tensor& values,
                     const std::vector<Segment>& segments) {
  const int64_t heads = q.size(1), head_dim = q.size(2), kv_heads = keys.size(1);
  std::vector<at::Tensor> results;
  for (const Segment& segment : segments) {
    const int64_t num_keys = segment.position + segment.length;
    std::vector<int64_t> slots;
    for (const SlotSpan& span : segment.spans)
      for (int32_t i = 0; i < span.length && static_cast<int64_t>(slots.size()) < num_keys; ++i)
        slots.push_back(span.slot + i);
    const at::Tensor index =
        at::from_blob(slots.data(), {num_keys}, at::TensorOptions().dtype(at::kLong)).clone().to(q.device());
    const auto rows = q.narrow(0, segment.row, segment.length)
                          .to(at::kFloat)
                          .view({segment.length, kv_heads, heads / kv_heads, head_dim});
    const auto k = keys.index_select(0, index).to(at::kFloat),
               v = values.index_select(0, index).to(at::kFloat);
    auto scores = at::einsum("tkgd,skd->tkgs", {rows, k}) / std::sqrt(static_cast<double>(head_dim));
    const auto options = at::TensorOptions().dtype(at::kLong).device(q.device());
    const auto row_position = at::arange(segment.length, options).unsqueeze(1) + segment.position;
    const auto hidden = at::arange(num_keys, options).unsqueeze(0) > row_position;
    scores = scores.masked_fill(hidden.unsqueeze(1).unsqueeze(1), -std::numeric_limits<double>::infinity());
    results.push_back(at::einsum("tkgs,skd->tkgd", {at::softmax(scores, -1), v})
                          .reshape({segment.length, heads, head_dim}));
  }
  return at::cat(results, 0).to(q.scalar_type());
}

}  // namespace trireme::models::reference
