// The Qwen2 decoder, described once, for rollout and for training.
//
// Weights live in a ParameterSet (fp32 masters in one flat buffer, named as Hugging Face names them);
// a Decoder borrows them. Compute runs in `compute_dtype`.
//
// Legend: T rows, D hidden_size, V vocab_size, N chosen (row, token) pairs.
#pragma once

#include <memory>
#include <span>

#include <ATen/core/Tensor.h>

#include "trainer/models/decoder_shape.h"
#include "trainer/models/forward_batch.h"
#include "trainer/models/parameter_set.h"

namespace trireme::models {

class Decoder {
 public:
  /// Borrows `parameters`, which must outlive it.
  Decoder(const DecoderShape& shape, ParameterSet& parameters, at::ScalarType compute_dtype);

  const DecoderShape& shape() const { return shape_; }
  at::ScalarType compute_dtype() const { return compute_dtype_; }
  at::Device device() const;

  /// Takes the masters' present values into the compute copies (a no-op where they are one buffer).
  /// Call after every change of the parameters and before forward_paged.
  void refresh();

  /// Rollout: writes each row's key and value to its slot, returns the last norm's output, [T, D].
  /// No gradient. Uses the copies of the last refresh().
  at::Tensor forward_paged(const ForwardBatch& batch, KvSlots& kv) const;

  /// Training: slots are rows (slots[i] == i). Records a graph where gradients are enabled. [T, D].
  at::Tensor forward_packed(const ForwardBatch& batch) const;

  /// Logits of the given rows in fp32, [rows.size(), V]; no gradient.
  at::Tensor logits(const at::Tensor& hidden_TD, std::span<const int32_t> rows) const;

  /// log softmax(logits / temperature) at N (row, token) pairs, and the entropy at each pair's row.
  /// The full logits never exist: rows are taken in chunks. Differentiable (through log_probs only;
  /// through entropy too if `entropy_gradient`).
  struct TokenLogProbs {
    at::Tensor log_probs_N;  // fp32
    at::Tensor entropy_N;    // fp32
  };
  TokenLogProbs token_log_probs(const at::Tensor& hidden_TD, std::span<const int32_t> rows,
                                std::span<const int32_t> tokens, double temperature,
                                bool entropy_gradient = false) const;

  /// An empty cache of `num_slots` slots for every layer.
  KvSlots make_kv_slots(int64_t num_slots) const;
  int64_t kv_bytes_per_slot() const;

 private:
  struct Layer;
  DecoderShape shape_;
  ParameterSet& parameters_;
  at::ScalarType compute_dtype_;
  std::vector<at::Tensor> compute_;  // one per parameter, in the set's order; the masters in fp32
  at::Tensor rope_;                  // [max positions, head_dim] cos | sin, fp32
};

}  // namespace trireme::models
