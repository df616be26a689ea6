// How tokens' losses become one number: each gets a weight, over the whole mini-batch. Torch-free.
#pragma once

#include <cstdint>
#include <string>

namespace trireme::losses {

/// What the whole mini-batch holds, over all ranks and micro-batches: with it, a token's weight does not
/// depend on how the batch was cut.
struct BatchTotals {
  int64_t sequences = 0;  // with at least one token that counts
  int64_t tokens = 0;     // that count
  int64_t scale = 0;      // seq-mean-token-sum-norm divides by it
};

/// The weight of each token of a response of which `length` tokens count, in the sum that is the loss:
///   token-mean                1 / tokens
///   token-sum                 1
///   seq-mean-token-sum        1 / sequences
///   seq-mean-token-mean       1 / (sequences * length)
///   seq-mean-token-sum-norm   1 / (sequences * scale)
/// Throws invalid_config on another mode. Source: verl agg_loss; token-mean: DAPO, arXiv:2503.14476, eq. 12;
/// seq-mean-token-mean: DeepSeekMath, arXiv:2402.03300, eq. 3; seq-mean-token-sum-norm: Liu et al. 2025,
/// arXiv:2503.20783.
double token_weight(const std::string& loss_agg_mode, int64_t length, const BatchTotals& totals);

}  // namespace trireme::losses
