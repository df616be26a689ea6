// The clipped policy objective, per token, and how tokens are weighed. Pure functions.
//
// Legend: N response tokens of one micro-batch.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "trainer/losses/loss_config.h"

namespace trireme::losses {

/// What the whole mini-batch holds, over all ranks and micro-batches: with it, a token's weight does not
/// depend on how the batch was cut.
struct BatchTotals {
  int64_t sequences = 0;  // with at least one response token
  int64_t tokens = 0;
  int64_t max_response_length = 0;  // the configured one, for seq-mean-token-sum-norm
};

/// The weight of each token of a response of `length` tokens in the sum that is the loss:
///   token-mean                1 / tokens
///   seq-mean-token-sum        1 / sequences
///   seq-mean-token-mean       1 / (sequences * length)
///   seq-mean-token-sum-norm   1 / (sequences * max_response_length)
/// Throws invalid_config on another mode.
double token_weight(const std::string& loss_agg_mode, int64_t length, const BatchTotals& totals);

struct PolicyLoss {
  at::Tensor loss;           // scalar, with graph: sum of weight * token loss
  double clipped = 0;        // weighted share of tokens where the clip was active
  double clipped_lower = 0;  // ... where the dual clip was
  double kl_to_old = 0;      // weighted mean of old - new log-probability (verl's ppo_kl)
};

/// max(-A r, -A clip(r, 1 - low, 1 + high)), and for A < 0 at most -A c; r = exp(new - old), the log-ratio
/// clamped to +-20. All tensors [N], fp32. `metric_weights` sum to a share of 1 over the mini-batch.
/// Source: Schulman et al. 2017 (arXiv:1707.06347) eq. 7; dual clip: Ye et al. 2019 (arXiv:1912.09729) eq. 5.
PolicyLoss policy_loss(const at::Tensor& log_probs_N, const at::Tensor& old_log_probs_N,
                       const at::Tensor& advantages_N, const at::Tensor& weights_N,
                       const at::Tensor& metric_weights_N, const PolicyLossConfig& config);

/// Per-token estimate of KL(new || reference) from log-probabilities of sampled tokens, [N]:
///   kl (k1): new - ref;  abs: |new - ref|;  mse (k2): (new - ref)^2 / 2;
///   low_var_kl (k3): exp(ref - new) - (ref - new) - 1, input clamped to +-20, result to +-10.
/// Source: Schulman, "Approximating KL divergence", 2020.
at::Tensor kl_estimate(const at::Tensor& log_probs_N, const at::Tensor& reference_N, const std::string& type);

}  // namespace trireme::losses
