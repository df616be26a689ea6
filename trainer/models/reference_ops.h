// The same operations in plain tensor arithmetic: what a GPU runs where there is no kernel of ours yet, and
// the oracle of the CPU kernels' tests. Differentiable by autograd; weights are passed as tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include "trainer/models/ops.h"

namespace trireme::models::reference {

at::Tensor rms_norm(const at::Tensor& x_TD, const at::Tensor& weight_D, double eps);
at::Tensor qk_norm(const at::Tensor& qkv, const at::Tensor& q_weight, const at::Tensor& k_weight,
                   const AttentionDims& dims, double eps);
at::Tensor silu_mul(const at::Tensor& gate_up);
/// x [T, heads, head_dim]
at::Tensor rotary(const at::Tensor& x, const at::Tensor& positions_T, const at::Tensor& rope);
/// q [T, heads, head_dim]; keys, values [S, kv_heads, head_dim] -> [T, heads, head_dim].
at::Tensor attention(const at::Tensor& q, const at::Tensor& keys, const at::Tensor& values,
                     const std::vector<Segment>& segments);

}  // namespace trireme::models::reference
