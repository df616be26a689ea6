// The memory of a model in training and in rollout: worked out from shape and layout, before anything is
// made. Torch-free. docs/planning.md derives the formulas; tests hold them against the tensors that exist,
// and `trireme bench train-step` against what the kernel counts.
#pragma once

#include <algorithm>
#include <cstdint>

#include "trainer/costs/layout.h"
#include "trainer/costs/model_shape.h"

namespace trireme::costs {

/// Bytes that one rank holds of a model in training from update to update.
struct StateBytes {
  int64_t masters = 0, gradient = 0;  // fp32
  int64_t moments = 0;                // AdamW's two
  int64_t weights = 0;                // what the decoder reads, where that is not the masters
  int64_t packed = 0;                 // on the CPU: matrices held once more
  int64_t exact = 0;                  // sums as whole numbers (reduce = "exact")
  int64_t total() const { return masters + gradient + moments + weights + packed + exact; }
};
/// Of the rank that holds most.
StateBytes state_bytes(const ModelShape& shape, const Layout& layout, const Target& target);

/// Bytes of a pass, beside the state: they come and go within an update.
struct PassBytes {
  int64_t kept = 0;       // activations, from the forward pass to the backward pass
  int64_t transient = 0;  // the most that one layer or the head needs beside them
  int64_t gathered = 0;   // weights and gradients that ZeRO 2 and 3 bring and take away
  int64_t panels = 0;     // on the CPU: matrices and rows packed for products; they stay
  int64_t update = 0;     // after the passes: parts of the gradient that come together, pieces for its norm
  int64_t total() const { return std::max(kept + transient + gathered, update) + panels; }
};
/// A forward and backward pass of `rows` rows on a replica's cp rank, in sequences of up to `longest`. With
/// pp the first stage's, which keeps most: as many micro-batches as there are stages, or as there are.
PassBytes training_pass_bytes(const ModelShape& shape, const Layout& layout, const Target& target,
                              int64_t rows, int64_t longest, int64_t micro_batches = 1);
/// A forward pass alone: log-probabilities of the reference, or values.
PassBytes forward_pass_bytes(const ModelShape& shape, const Layout& layout, const Target& target,
                             int64_t rows);

/// Bytes of a model in training's state by what goes on: the rest is outside of the device's memory.
struct Presence {
  int64_t between = 0;  // neither passes nor an update
  int64_t reading = 0;  // passes without gradients
  int64_t passes = 0;   // of an update
  int64_t update = 0;   // its end
  int64_t pieces = 0;   // of moments, while the masters change: the gradient's norm is done by then
};
/// `weights_stay`: rollout reads the weights in their place.
Presence presence_of(const StateBytes& state, const Layout& layout, const Target& target, bool weights_stay);

/// A model that is only read: weights in the compute type, packed once more on the CPU where `generates`.
int64_t weight_bytes(const ModelShape& shape, const Layout& layout, const Target& target, bool generates);
/// A step of generation: up to `rows` rows, logits of up to `sequences` of them.
int64_t generation_step_bytes(const ModelShape& shape, int64_t tp, const Target& target, int64_t rows,
                              int64_t sequences);

}  // namespace trireme::costs
