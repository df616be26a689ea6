// Importance correction between the policy that rollout sampled from and the one that is trained, where they
// are not the same (another precision, other kernels, older weights). Torch-free.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainer/algorithms/algorithm_config.h"

namespace trireme::algorithms {

/// One criterion of rejection. Statistics are of the log-ratio l = old - rollout, clamped to +-20:
/// k1 = -l, k2 = l^2 / 2, k3 = exp(l) - 1 - l; of each token, or their sum, mean or maximum over a response.
struct Rejection {
  enum class Over { token, seq_sum, seq_mean, seq_max } over = Over::token;
  int k = 1;                    // 1, 2, 3
  double lower = 0, upper = 0;  // k1 is kept in [ln lower, ln upper], the others up to `upper`
};

/// Reads rollout_rs and rollout_rs_threshold: a list of token_k1..3, seq_sum_k1..3, seq_mean_k1..3,
/// seq_max_k2, seq_max_k3, and for each its threshold: "LOWER_UPPER" for k1 ("UPPER" alone: 1/UPPER to
/// UPPER), "UPPER" for the others. Throws invalid_config saying what is wrong.
std::vector<Rejection> read_rejections(const std::string& names, const std::string& thresholds);

/// Clears the mask where a criterion is not met. Source: verl compute_rollout_rejection_mask; masked
/// importance sampling: Liu et al. 2025, "When speed kills stability".
void reject(std::span<const float> old_log_probs, std::span<const float> rollout_log_probs,
            std::span<const Rejection> rejections, std::vector<uint8_t>& mask);

/// The weight of each token's loss: exp(l) by token, or exp(sum of l) by response, at most the threshold
/// (truncated importance sampling); or 0 outside the two thresholds where the low one is above 0 (masked).
/// Empty where rollout_is is neither "token" nor "sequence". Sums go over unmasked tokens.
/// Source: Yao et al. 2025, "Your efficient RL framework secretly brings you off-policy RL training"; masked
/// by two bounds: IcePop, Ling team 2025; verl compute_rollout_correction_weights.
std::vector<float> importance_weights(std::span<const float> old_log_probs,
                                      std::span<const float> rollout_log_probs, std::span<const uint8_t> mask,
                                      const RolloutCorrection& config);

}  // namespace trireme::algorithms
