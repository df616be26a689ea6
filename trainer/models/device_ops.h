// Tensors around gpu_kernels.h: the operations of ops.h for weights and rows in a GPU's memory. Where a graph
// is recorded the forward pass is the kernel's, and the backward pass computes the operation again in plain
// tensor arithmetic (reference_ops.h) and lets autograd differentiate that.
#pragma once

#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "trainer/models/gpu_kernels.h"
#include "trainer/models/ops.h"

namespace trireme::models::device {

/// Whether x's operations run here: it lies in a GPU's memory, or a double of a GPU is in use.
bool computes(const at::Tensor& x);
/// Tests: kernels that compute in the host's memory stand in for a GPU's, for tensors of the CPU. Null: no
/// more.
void use_double(const GpuKernels* kernels);

/// The kernels that compute on `device`, and the stream to launch them on.
const GpuKernels& kernels();
GpuStream stream(at::Device device);

at::Tensor rms_norm(const at::Tensor& x_TD, const Weight& weight, double eps);
/// residual += added (a new tensor), and the norm of that. No graph.
at::Tensor add_rms_norm(at::Tensor& residual_TD, const at::Tensor& added_TD, const Weight& weight,
                        double eps);
at::Tensor qk_norm(const at::Tensor& qkv, const Weight& q_weight, const Weight& k_weight,
                   const AttentionDims& dims, double eps);
at::Tensor silu_mul(const at::Tensor& gate_up);
at::Tensor attention_packed(const at::Tensor& qkv, const AttentionDims& dims, const BatchPlan& plan);
at::Tensor attention_paged(const at::Tensor& qkv, const AttentionDims& dims, const BatchPlan& plan,
                           LayerKv& kv);
/// All keys and values come at once (context_parallel.h).
at::Tensor ring_attention(const at::Tensor& qkv, const AttentionDims& dims, const BatchPlan& plan);

/// SoftmaxRow of each row, and ChunkStats of each chunk; both as four words of int32, [N, 4] and [N, chunks,
/// 4].
struct SoftmaxStats {
  at::Tensor rows, chunks;
  at::Tensor log_sum_exp() const { return rows.view(at::kFloat).select(1, 1); }
  at::Tensor entropy() const { return rows.view(at::kFloat).select(1, 2); }
};
/// Of logits [N, V], fp32 and contiguous, times their row's inverse temperature (fp32 [N], or undefined: 1).
SoftmaxStats softmax_stats(const at::Tensor& logits_NV, const at::Tensor& inverse_temperature_N);

}  // namespace trireme::models::device
