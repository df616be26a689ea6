#include "trainer/losses/policy_loss.h"

#include <iterator>

#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/log.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/repeat_interleave.h>
#include <ATen/ops/segment_reduce.h>

#include "runtime/base/error.h"

namespace trireme::losses {
namespace {

struct Variant {
  const char* name;
  at::Tensor (*token_losses)(const PolicyTokens&, const PolicyLossConfig&, PolicyMetrics&);
  bool is_of_responses = false;  // defined with seq-mean-token-mean
  bool importance_is_geometric_mean = false;
};

constexpr Variant kVariants[] = {
    {"vanilla", vanilla_loss},
    {"gspo", gspo_loss, true},
    {"cispo", cispo_loss},
    {"sapo", sapo_loss, true},
    {"geo_mean", geo_mean_loss, true, true},
    {"clip_cov", clip_cov_loss},
    {"kl_cov", kl_cov_loss},
    {"gpg", gpg_loss},
};
static_assert(std::size(kVariants) == std::size(kLossModes));

const Variant& variant_of(const PolicyLossConfig& config) {
  for (const Variant& variant : kVariants)
    if (config.loss_mode == variant.name) return variant;
  fail(ErrorCode::invalid_config, "actor.policy_loss.loss_mode '{}' is unknown", config.loss_mode);
}

}  // namespace

at::Tensor PolicyTokens::mask_N() const {
  return (shares_N > 0).to(at::kFloat);
}

const std::string& aggregation_of(const PolicyLossConfig& config) {
  static const std::string of_responses = "seq-mean-token-mean";
  return variant_of(config).is_of_responses ? of_responses : config.loss_agg_mode;
}

PolicyLoss policy_loss(const PolicyTokens& tokens, const PolicyLossConfig& config) {
  const Variant& variant = variant_of(config);
  PolicyLoss result;
  at::Tensor losses = variant.token_losses(tokens, config, result.metrics);
  if (tokens.importance_N.defined())
    losses = losses * (variant.importance_is_geometric_mean
                           ? at::exp(mean_of_response(tokens, at::log(tokens.importance_N + 1e-10)))
                           : tokens.importance_N);
  result.loss = (losses * tokens.weights_N).sum();
  result.metrics.kl_to_old = share_of(tokens, -log_ratio(tokens));
  return result;
}

at::Tensor log_ratio(const PolicyTokens& tokens) {
  return at::clamp(tokens.log_probs_N - tokens.old_log_probs_N, -20.0, 20.0);
}

at::Tensor importance_ratio(const PolicyTokens& tokens, const PolicyLossConfig& config) {
  const at::Tensor ratio = log_ratio(tokens);
  return at::exp(config.loss_mode == "gspo" ? mean_of_response(tokens, ratio) : ratio);
}

double share_of(const PolicyTokens& tokens, const at::Tensor& values) {
  return (values.detach().to(at::kFloat) * tokens.shares_N).sum().item<double>();
}

at::Tensor clipped_loss(const PolicyTokens& tokens, const at::Tensor& ratio, const PolicyLossConfig& config,
                        PolicyMetrics& metrics) {
  const at::Tensor plain = -tokens.advantages_N * ratio;
  const at::Tensor clipped =
      -tokens.advantages_N * at::clamp(ratio, 1.0 - config.clip_ratio_low, 1.0 + config.clip_ratio_high);
  metrics.clipped = share_of(tokens, clipped > plain);
  return at::maximum(plain, clipped);
}

at::Tensor mean_of_response(const PolicyTokens& tokens, const at::Tensor& values) {
  const auto sum = [&](const at::Tensor& x) {
    return at::segment_reduce(x, "sum", tokens.lengths_S, {}, {}, 0, /*unsafe=*/true, 0.0);
  };
  const at::Tensor mask = tokens.mask_N();
  const at::Tensor means = sum(values * mask) / at::clamp(sum(mask), 1.0);
  return at::repeat_interleave(means, tokens.lengths_S, 0, tokens.log_probs_N.numel());
}

}  // namespace trireme::losses
