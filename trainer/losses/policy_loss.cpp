#include "trainer/losses/policy_loss.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/where.h>

#include "runtime/base/error.h"

namespace trireme::losses {

double token_weight(const std::string& mode, int64_t length, const BatchTotals& totals) {
  const auto sequences = static_cast<double>(totals.sequences);
  if (mode == "token-mean") return 1.0 / static_cast<double>(totals.tokens);
  if (mode == "seq-mean-token-sum") return 1.0 / sequences;
  if (mode == "seq-mean-token-mean") return 1.0 / (sequences * static_cast<double>(length));
  if (mode == "seq-mean-token-sum-norm")
    return 1.0 / (sequences * static_cast<double>(totals.max_response_length));
  fail(ErrorCode::invalid_config, "actor.loss_agg_mode '{}' is unknown", mode);
}

PolicyLoss policy_loss(const at::Tensor& log_probs, const at::Tensor& old_log_probs,
                       const at::Tensor& advantages, const at::Tensor& weights,
                       const at::Tensor& metric_weights, const PolicyLossConfig& config) {
  const at::Tensor log_ratio = at::clamp(log_probs - old_log_probs, -20.0, 20.0);
  const at::Tensor ratio = at::exp(log_ratio);
  const at::Tensor plain = -advantages * ratio;
  const at::Tensor clipped =
      -advantages * at::clamp(ratio, 1.0 - config.clip_ratio_low, 1.0 + config.clip_ratio_high);
  const at::Tensor upper = at::maximum(plain, clipped);
  const at::Tensor bound = -advantages * config.clip_ratio_c;
  const at::Tensor negative = advantages < 0;
  const at::Tensor token_loss = at::where(negative, at::minimum(upper, bound), upper);

  PolicyLoss result;
  result.loss = (token_loss * weights).sum();
  const auto weighted = [&](const at::Tensor& x) {
    return (x.detach().to(at::kFloat) * metric_weights).sum().item<double>();
  };
  result.clipped = weighted(clipped > plain);
  result.clipped_lower = weighted((upper > bound).logical_and(negative));
  result.kl_to_old = weighted(-log_ratio);
  return result;
}

at::Tensor kl_estimate(const at::Tensor& log_probs, const at::Tensor& reference, const std::string& type) {
  const at::Tensor difference = log_probs - reference;
  if (type == "kl") return difference;
  if (type == "abs") return difference.abs();
  if (type == "mse") return 0.5 * difference.pow(2);
  if (type == "low_var_kl") {
    const at::Tensor reverse = at::clamp(-difference, -20.0, 20.0);
    return at::clamp(at::exp(reverse) - reverse - 1.0, -10.0, 10.0);
  }
  fail(ErrorCode::invalid_config, "actor.kl_loss_type '{}' is unknown", type);
}

}  // namespace trireme::losses
