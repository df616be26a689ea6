// Variants that weigh a token's advantage by a ratio of probabilities, or by none.
#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/clamp_max.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sign.h>
#include <ATen/ops/where.h>

#include "trainer/losses/policy_loss.h"

namespace trireme::losses {

at::Tensor vanilla_loss(const PolicyTokens& tokens, const PolicyLossConfig& config, PolicyMetrics& metrics) {
  const at::Tensor upper = clipped_loss(tokens, at::exp(log_ratio(tokens)), config, metrics);
  const at::Tensor bound = -tokens.advantages_N * config.clip_ratio_c;
  const at::Tensor negative = tokens.advantages_N < 0;
  metrics.clipped_lower = share_of(tokens, (upper > bound).logical_and(negative));
  return at::where(negative, at::minimum(upper, bound), upper);
}

at::Tensor gspo_loss(const PolicyTokens& tokens, const PolicyLossConfig& config, PolicyMetrics& metrics) {
  const at::Tensor fresh = tokens.log_probs_N, fixed = fresh.detach();
  const at::Tensor of_response = mean_of_response(tokens, fixed - tokens.old_log_probs_N);
  const at::Tensor ratio = at::exp(at::clamp_max(fresh - fixed + of_response, 10.0));
  return clipped_loss(tokens, ratio, config, metrics);
}

at::Tensor cispo_loss(const PolicyTokens& tokens, const PolicyLossConfig& config, PolicyMetrics& metrics) {
  const at::Tensor ratio = at::exp(log_ratio(tokens).detach());
  const at::Tensor clipped = at::clamp(ratio, 1.0 - config.clip_ratio_low, 1.0 + config.clip_ratio_high);
  metrics.clipped = share_of(tokens, ratio != clipped);
  return -clipped * tokens.advantages_N * tokens.log_probs_N;
}

at::Tensor sapo_loss(const PolicyTokens& tokens, const PolicyLossConfig& config, PolicyMetrics&) {
  const at::Tensor& advantages = tokens.advantages_N;
  const at::Tensor tau = at::where(advantages > 0, at::full_like(advantages, config.tau_pos),
                                   at::full_like(advantages, config.tau_neg));
  return -advantages * at::sigmoid(tau * (at::exp(log_ratio(tokens)) - 1.0)) * (4.0 / tau);
}

at::Tensor geo_mean_loss(const PolicyTokens& tokens, const PolicyLossConfig& config, PolicyMetrics& metrics) {
  const at::Tensor ratio = log_ratio(tokens);
  const at::Tensor clipped = at::clamp(ratio, -config.clip_ratio_low, config.clip_ratio_high);
  const at::Tensor sign = at::sign(tokens.advantages_N);
  const at::Tensor kept = sign * at::minimum(sign * ratio, sign * clipped);
  const at::Tensor beyond = ratio != clipped;
  metrics.clipped = share_of(tokens, beyond.logical_and(tokens.advantages_N > 0));
  metrics.clipped_lower = share_of(tokens, beyond.logical_and(tokens.advantages_N < 0));
  return -mean_of_response(tokens, tokens.advantages_N) * at::exp(mean_of_response(tokens, kept));
}

at::Tensor gpg_loss(const PolicyTokens& tokens, const PolicyLossConfig&, PolicyMetrics&) {
  return -tokens.advantages_N * tokens.log_probs_N;
}

}  // namespace trireme::losses
