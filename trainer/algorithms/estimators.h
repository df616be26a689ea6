// From rewards to advantages: the estimators, by the names that verl gives them. Pure functions, Torch-free.
//
// An estimator looks at one group (the responses to one prompt) at a time. Where it needs something of the
// whole batch (its mean and deviation), that is put together from what each group contributes, in the order
// of the groups: so the result does not depend on which rank had which group.
//
// A new one is a function, and its line in kEstimators (estimator_config.h) and in estimators.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainer/algorithms/algorithm_config.h"
#include "trainer/algorithms/estimator_config.h"

namespace trireme::algorithms {

/// One response. Vectors have one element a token; a response without tokens, or with all of them masked,
/// counts among its group's rewards and gets no advantage.
struct Trajectory {
  double reward = 0.0;          // of the whole response: the score less KL in the reward
  std::vector<double> rewards;  // by token; the score lies on the last one
  std::vector<uint8_t> mask;    // 1: the policy chose this token and shall learn from it
  std::vector<double> values;   // the critic's, where the estimator needs them
  double greedy_reward = 0.0;   // of the greedy response to the prompt, where the estimator needs it
  // What an estimator gives: 0 where masked.
  std::vector<double> advantages, returns;
};

/// What one group, or all of them together, contribute to what the batch must know.
struct BatchStatistics {
  int64_t group = 0;  // whose; of no meaning once merged
  int64_t samples = 0;
  int64_t nonzero_rewards = 0;
  // Over the advantages of unmasked tokens.
  int64_t tokens = 0;
  double mean = 0.0;
  double squares = 0.0;  // sum of (advantage - mean)^2
};
BatchStatistics statistics_of(int64_t group, std::span<const Trajectory> trajectories);
/// The same bits for any order of `groups`.
BatchStatistics merge(std::vector<BatchStatistics> groups);

struct Estimator {
  const char* name;
  /// Advantages and returns of one group's trajectories.
  void (*of_group)(std::span<Trajectory> group, const AlgorithmConfig& config);
  /// What comes after, once the batch is known; null: nothing.
  void (*over_batch)(std::span<Trajectory> group, const BatchStatistics& batch) = nullptr;
};

/// Throws invalid_config if there is none of that name.
const Estimator& find_estimator(const std::string& name);
/// In the order of kEstimators.
std::span<const Estimator> estimators();

// group_baselines.cpp: reward less a baseline of the group, the same for all tokens of a response.

/// (R - mean) / (std + 1e-6) with the unbiased std, without the division unless norm_adv_by_std_in_grpo. A
/// lone response keeps its reward (mean 0, std 1). Source: DeepSeekMath, arXiv:2402.03300, section 4.1.2.
void grpo(std::span<Trajectory> group, const AlgorithmConfig& config);
/// R - mean. Source: Liu et al. 2025, arXiv:2503.20783.
void dr_grpo(std::span<Trajectory> group, const AlgorithmConfig& config);
/// R less the mean of the others: n / (n - 1) (R - mean). A lone response keeps its reward. Source: Ahmadian
/// et al. 2024, arXiv:2402.14740.
void rloo(std::span<Trajectory> group, const AlgorithmConfig& config);
/// R less the rewards' mean weighted by length, which makes the gradient's variance least. A lone response
/// keeps its reward. Source: Hao et al. 2025, arXiv:2505.23585.
void opo(std::span<Trajectory> group, const AlgorithmConfig& config);
/// The best response gets its lead over the second, divided by (std + 1e-6) where norm_adv_by_std_in_grpo;
/// the others get 0, and so does a lone response. Source: arXiv:2503.19595; verl
/// compute_grpo_passk_outcome_advantage.
void grpo_passk(std::span<Trajectory> group, const AlgorithmConfig& config);
/// R - mean, a lone response keeps its reward; over the batch scaled by responses / those with a reward other
/// than 0. Source: Chu et al. 2025, arXiv:2504.02546.
void gpg(std::span<Trajectory> group, const AlgorithmConfig& config);
void scale_by_nonzero(std::span<Trajectory> group, const BatchStatistics& batch);
/// R - mean, a lone response keeps its reward; over the batch whitened. Source: Hu 2025, arXiv:2501.03262
/// (with a group's baseline).
void reinforce_plus_plus_baseline(std::span<Trajectory> group, const AlgorithmConfig& config);

// token_returns.cpp: from each token's reward on.

/// Discounted returns, G_t = r_t + gamma G_(t+1), masked tokens passed over; over the batch whitened. Source:
/// Hu 2025, arXiv:2501.03262.
void reinforce_plus_plus(std::span<Trajectory> group, const AlgorithmConfig& config);
/// What is still to come, less the reward of the greedy response. Source: Li et al. 2023, arXiv:2310.10505.
void remax(std::span<Trajectory> group, const AlgorithmConfig& config);
/// delta_t = r_t + gamma V_(t+1) - V_t, A_t = delta_t + gamma lam A_(t+1); over masked tokens (what a tool
/// wrote) V and A are carried unchanged. returns = A + V; then advantages are whitened over the batch.
/// Source: Schulman et al. 2015, arXiv:1506.02438, eq. 16; verl compute_gae_advantage_return.
void gae(std::span<Trajectory> group, const AlgorithmConfig& config);

// whitening.cpp

/// (A - mean) / sqrt(var + 1e-8) over all unmasked tokens of the batch, with the unbiased variance. Fewer
/// than two tokens are left as they are. Source: verl masked_whiten.
void whiten(std::span<Trajectory> group, const BatchStatistics& batch);

}  // namespace trireme::algorithms
