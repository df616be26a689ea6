// The row-wise operations a decoder is made of, each with its gradient. On the CPU they run cpu_kernels.h, on
// a GPU gpu_kernels.h (by device_ops.h); plain tensor operations (reference_ops.h) are the tests' oracle.
//
// A weight's gradient is added straight into its place in the flat fp32 gradient buffer: no copy of a
// weight-sized gradient exists, and micro-batches accumulate in fp32.
//
// Legend: T rows, D hidden size, S key/value slots, N chosen (row, token) pairs.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "runtime/comm/communicator.h"
#include "trainer/models/forward_batch.h"
#include "trainer/models/packed_gemm.h"

namespace trireme::models {

/// One matrix or vector of a decoder (several checkpoint tensors side by side may be one Weight).
struct Weight {
  at::Tensor value;     // compute dtype, no graph
  at::Tensor gradient;  // fp32, same shape; undefined where nothing is trained
  // On the CPU, of a matrix that x is multiplied by: its values as of the decoder's last refresh().
  std::shared_ptr<PackedMatrix> packed;

  /// x [T, in] -> x value^T (+ bias) in dtype `out`, [T, out]; no graph. On the CPU a row's bits do not
  /// depend on the other rows; without a packed copy the matrix is packed for the call.
  at::Tensor times(const at::Tensor& x, const Weight* bias, at::ScalarType out) const;

  /// grad_y [T, out] -> grad_y value, [T, in].
  at::Tensor back(const at::Tensor& grad_y) const;

  /// Of a matrix [out, in] that made y [T, out] from x [T, in]: adds grad_y^T x to the gradient, in fp32.
  void accumulate(const at::Tensor& grad_y, const at::Tensor& x) const;
};

struct AttentionDims {
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  int64_t qkv_width() const { return (heads + 2 * kv_heads) * head_dim; }
};

struct DeviceBatch;
struct ContextPlan;

/// A ForwardBatch with what all layers share, computed once per forward. On a GPU `device` is what kernels
/// read; there `batch` may be null where no graph is recorded. Where ranks share out the rows, tokens and
/// positions are those of this rank's, and attention is context_parallel.h's.
struct BatchPlan {
  const ForwardBatch* batch = nullptr;
  at::Tensor tokens_T;     // on the weights' device
  at::Tensor positions_T;  // int32 on the host
  at::Tensor rope;         // [positions, head_dim] cos | sin, fp32, on the host
  std::shared_ptr<const DeviceBatch> device;
  std::shared_ptr<const ContextPlan> context;
};

/// Where a graph begins: a tensor that requires gradients where `train`, so that what follows is recorded.
at::Tensor embedding(const Weight& table, const BatchPlan& plan, bool train);
/// x [T, in] -> [T, out]; bias may be null, or a Weight without a value.
at::Tensor linear(const at::Tensor& x, const Weight& weight, const Weight* bias);
at::Tensor rms_norm(const at::Tensor& x_TD, const Weight& weight, double eps);
/// residual = residual + added, and the norm of that.
at::Tensor add_rms_norm(at::Tensor& residual_TD, const at::Tensor& added_TD, const Weight& weight,
                        double eps);
/// RMS norm of each head of q and of each head of k, with one weight of head_dim each; v as it is. qkv
/// [T, qkv_width] -> the same.
at::Tensor qk_norm(const at::Tensor& qkv, const Weight& q_weight, const Weight& k_weight,
                   const AttentionDims& dims, double eps);
/// [T, 2 I] -> [T, I]: silu(left half) * right half.
at::Tensor silu_mul(const at::Tensor& gate_up);

/// Rotary embedding of q and k, then attention, each row over its segment's keys. qkv [T, qkv_width] as the
/// projection gives it; keys and values are the rows of the batch itself. -> [T, heads * head_dim].
at::Tensor attention_packed(const at::Tensor& qkv, const AttentionDims& dims, const BatchPlan& plan);
/// The same over a paged cache: writes the rows' keys and values to their slots first. No gradient.
at::Tensor attention_paged(const at::Tensor& qkv, const AttentionDims& dims, const BatchPlan& plan,
                           LayerKv& kv);

struct LogProbs {
  at::Tensor log_probs_N;  // fp32
  at::Tensor entropy_N;    // fp32
};
/// As many rows as have about 16 MB of fp32 logits, 64 at least.
int64_t log_prob_chunk_rows(int64_t vocab_size);

/// Where ranks share a vocabulary: the head has the tokens from `first` on, those of the other ranks of
/// `group` have the rest. Null: it has all of them.
struct VocabularyPiece {
  comm::Communicator* group = nullptr;
  int64_t first = 0;
};

/// log softmax(hidden[rows] @ head^T / temperature) at `tokens`, and that distribution's entropy. Rows may
/// repeat (a shared prompt's last row); logits exist for `chunk_rows` rows at a time. Collective over the
/// piece's group, with the same rows; the gradient of `hidden` is then this piece's part of a sum.
LogProbs token_log_probs(const at::Tensor& hidden_TD, const Weight& head, std::span<const int32_t> rows,
                         std::span<const int32_t> tokens, double temperature, bool entropy_gradient,
                         int64_t chunk_rows, const VocabularyPiece& piece = {});

/// hidden[rows] @ head^T + bias, where the head [1, D] makes one number of a row: [N] fp32. Rows may repeat.
/// Without `gradients` the backward pass gives zeros and leaves the head's gradient: where ranks have the
/// same rows and head, one of them has the gradient.
at::Tensor row_values(const at::Tensor& hidden_TD, const Weight& head, const Weight& bias,
                      std::span<const int32_t> rows, bool gradients = true);

}  // namespace trireme::models
