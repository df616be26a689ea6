// The policy's objective, token by token, in the variants that verl names. Pure functions.
//
// A variant gives each response token its loss; policy_loss() weighs and sums them. A new one is a function,
// and its line in kLossModes (loss_config.h) and in policy_loss.cpp.
//
// Legend: N response tokens of one micro-batch, whole responses end to end; S responses.
#pragma once

#include <cstdint>
#include <string>

#include <ATen/core/Tensor.h>

#include "trainer/losses/loss_config.h"

namespace trireme::losses {

struct PolicyTokens {
  at::Tensor log_probs_N;      // fp32, with graph
  at::Tensor old_log_probs_N;  // fp32, as the following
  at::Tensor advantages_N;
  at::Tensor weights_N;     // token_weight() with aggregation_of(); 0 where a token does not count
  at::Tensor shares_N;      // 1 / the mini-batch's tokens; 0 where a token does not count: for metrics
  at::Tensor importance_N;  // what rollout correction multiplies losses with; undefined: 1
  at::Tensor lengths_S;     // int64, tokens of each response: their sum is N
  uint64_t seed = 0;        // for what is chosen at random (clip_cov)

  at::Tensor mask_N() const;  // fp32: 1 where a token counts
};

/// What a variant tells beside its loss; shares of the mini-batch's tokens.
struct PolicyMetrics {
  double clipped = 0;        // actor/pg_clipfrac
  double clipped_lower = 0;  // actor/pg_clipfrac_lower
  double kl_to_old = 0;      // mean of old - new log-probability: actor/ppo_kl
};

struct PolicyLoss {
  at::Tensor loss;  // scalar, with graph: sum of weight * importance * token loss
  PolicyMetrics metrics;
};

/// Throws invalid_config on an unknown loss_mode.
PolicyLoss policy_loss(const PolicyTokens& tokens, const PolicyLossConfig& config);

/// The aggregation that weighs tokens: the configured one, or that which the variant is defined with.
const std::string& aggregation_of(const PolicyLossConfig& config);

// The variants. r = exp(new - old), the log-ratio clamped to +-20; A the advantage; [N], with graph. Each is
// in a file of that name, or in ratio_losses.cpp.

/// max(-A r, -A clip(r, 1 - low, 1 + high)), and for A < 0 at most -A c. Source: Schulman et al. 2017,
/// arXiv:1707.06347, eq. 7; high above low: DAPO, arXiv:2503.14476, eq. 10; dual clip: Ye et al. 2019,
/// arXiv:1912.09729, eq. 5.
at::Tensor vanilla_loss(const PolicyTokens& tokens, const PolicyLossConfig& config, PolicyMetrics& metrics);
/// The clip of a response's ratio, exp of its mean log-ratio, whose gradient each token gets for its own
/// log-probability; at most exp(10). Source: Zheng et al. 2025, arXiv:2507.18071.
at::Tensor gspo_loss(const PolicyTokens& tokens, const PolicyLossConfig& config, PolicyMetrics& metrics);
/// -A log pi, times the clipped ratio without its gradient. Source: MiniMax-M1, arXiv:2506.13585.
at::Tensor cispo_loss(const PolicyTokens& tokens, const PolicyLossConfig& config, PolicyMetrics& metrics);
/// -A (4 / tau) sigmoid(tau (r - 1)), tau_pos for A > 0, else tau_neg. Source: Gao et al. 2025,
/// arXiv:2511.20347.
at::Tensor sapo_loss(const PolicyTokens& tokens, const PolicyLossConfig& config, PolicyMetrics& metrics);
/// -A of a response times the geometric mean of its tokens' ratios, each log-ratio clipped to [-low, high] on
/// the side that its advantage pushes to. Source: Zhao et al. 2025, arXiv:2507.20673.
at::Tensor geo_mean_loss(const PolicyTokens& tokens, const PolicyLossConfig& config, PolicyMetrics& metrics);
/// The plain clip; of the unclipped tokens whose covariance (A - mean A)(log pi - mean log pi) lies between
/// clip_cov_lb and clip_cov_ub, a share of clip_cov_ratio, chosen at random, gets no loss. The means and the
/// share are the micro-batch's, as they are verl's. Source: Cui et al. 2025, arXiv:2505.22617.
at::Tensor clip_cov_loss(const PolicyTokens& tokens, const PolicyLossConfig& config, PolicyMetrics& metrics);
/// -A r, and for the share kl_cov_ratio of tokens with the greatest covariance (of the micro-batch, as above)
/// ppo_kl_coef |new - old| more. Source: Cui et al. 2025, arXiv:2505.22617.
at::Tensor kl_cov_loss(const PolicyTokens& tokens, const PolicyLossConfig& config, PolicyMetrics& metrics);
/// -A log pi. Source: Chu et al. 2025, arXiv:2504.02546.
at::Tensor gpg_loss(const PolicyTokens& tokens, const PolicyLossConfig& config, PolicyMetrics& metrics);

// What variants share.

/// new - old, clamped to +-20.
at::Tensor log_ratio(const PolicyTokens& tokens);
/// exp(log_ratio); of gspo the response's, exp of its mean log-ratio. With graph. The KL in the loss times
/// this has a gradient that is right on average. Source: DeepSeek-V3.2, arXiv:2512.02556.
at::Tensor importance_ratio(const PolicyTokens& tokens, const PolicyLossConfig& config);
/// The sum of `values` weighed by shares_N; no graph.
double share_of(const PolicyTokens& tokens, const at::Tensor& values_N);
/// max(-A r, -A clip(r)) and its share of clipped tokens.
at::Tensor clipped_loss(const PolicyTokens& tokens, const at::Tensor& ratio_N, const PolicyLossConfig& config,
                        PolicyMetrics& metrics);
/// The mean over each response's tokens that count, at each of its tokens; 0 where none counts.
at::Tensor mean_of_response(const PolicyTokens& tokens, const at::Tensor& values_N);

}  // namespace trireme::losses
