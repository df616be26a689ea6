#include "trainer/losses/preference_loss.h"

#include <cmath>
#include <iterator>

#include <ATen/TensorOperators.h>
#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>

#include "runtime/base/error.h"

namespace trireme::losses {
namespace {

struct Type {
  const char* name;
  at::Tensor (*losses)(const PreferencePairs&, const PreferenceLossConfig&);
};

constexpr Type kTypes[] = {
    {"sigmoid", sigmoid_loss},     {"sigmoid_norm", sigmoid_norm_loss},
    {"hinge", hinge_loss},         {"ipo", ipo_loss},
    {"robust", robust_loss},       {"exo_pair", exo_pair_loss},
    {"nca_pair", nca_pair_loss},   {"bco_pair", bco_pair_loss},
    {"apo_zero", apo_zero_loss},   {"apo_down", apo_down_loss},
    {"sppo_hard", sppo_hard_loss},
};
static_assert(std::size(kTypes) == std::size(kPreferenceLosses));

}  // namespace

PreferencePairs pairs_of(const at::Tensor& log_ratios_P2, const at::Tensor& tokens_P2) {
  return {log_ratios_P2.select(1, 0), log_ratios_P2.select(1, 1), tokens_P2.select(1, 0),
          tokens_P2.select(1, 1)};
}

at::Tensor preference_losses(const PreferencePairs& pairs, const PreferenceLossConfig& config) {
  for (const Type& type : kTypes)
    if (config.loss_type == type.name) return type.losses(pairs, config);
  fail(ErrorCode::invalid_config, "algorithm.dpo.loss_type '{}' is unknown", config.loss_type);
}

at::Tensor PreferencePairs::margins_P(const PreferenceLossConfig& config) const {
  return config.beta * (chosen_P - rejected_P);
}

at::Tensor PreferencePairs::mean_leads_P() const {
  return chosen_P / chosen_tokens_P - rejected_P / rejected_tokens_P;
}

at::Tensor sigmoid_loss(const PreferencePairs& pairs, const PreferenceLossConfig& config) {
  const at::Tensor d = pairs.margins_P(config);
  const double e = config.label_smoothing;
  return -(1 - e) * at::log_sigmoid(d) - e * at::log_sigmoid(-d);
}

at::Tensor sigmoid_norm_loss(const PreferencePairs& pairs, const PreferenceLossConfig& config) {
  return -at::log_sigmoid(config.beta * pairs.mean_leads_P());
}

at::Tensor hinge_loss(const PreferencePairs& pairs, const PreferenceLossConfig& config) {
  return at::relu(1 - pairs.margins_P(config));
}

at::Tensor ipo_loss(const PreferencePairs& pairs, const PreferenceLossConfig& config) {
  return (pairs.mean_leads_P() - 1 / (2 * config.beta)).square();
}

at::Tensor robust_loss(const PreferencePairs& pairs, const PreferenceLossConfig& config) {
  const at::Tensor d = pairs.margins_P(config);
  const double e = config.label_smoothing;
  return (-(1 - e) * at::log_sigmoid(d) + e * at::log_sigmoid(-d)) / (1 - 2 * e);
}

at::Tensor exo_pair_loss(const PreferencePairs& pairs, const PreferenceLossConfig& config) {
  const at::Tensor d = pairs.margins_P(config);
  const double e = config.label_smoothing;
  return at::sigmoid(d) * (at::log_sigmoid(d) - std::log1p(-e)) +
         at::sigmoid(-d) * (at::log_sigmoid(-d) - std::log(e));
}

at::Tensor nca_pair_loss(const PreferencePairs& pairs, const PreferenceLossConfig& config) {
  const at::Tensor c = config.beta * pairs.chosen_P, r = config.beta * pairs.rejected_P;
  return -at::log_sigmoid(c) - 0.5 * (at::log_sigmoid(-c) + at::log_sigmoid(-r));
}

at::Tensor bco_pair_loss(const PreferencePairs& pairs, const PreferenceLossConfig& config) {
  return -at::log_sigmoid(config.beta * pairs.chosen_P) - at::log_sigmoid(-config.beta * pairs.rejected_P);
}

at::Tensor apo_zero_loss(const PreferencePairs& pairs, const PreferenceLossConfig& config) {
  return 1 - at::sigmoid(config.beta * pairs.chosen_P) + at::sigmoid(config.beta * pairs.rejected_P);
}

at::Tensor apo_down_loss(const PreferencePairs& pairs, const PreferenceLossConfig& config) {
  return at::sigmoid(config.beta * pairs.chosen_P) + 1 - at::sigmoid(pairs.margins_P(config));
}

at::Tensor sppo_hard_loss(const PreferencePairs& pairs, const PreferenceLossConfig& config) {
  const double target = 0.5 / config.beta;
  return (pairs.chosen_P - target).square() + (pairs.rejected_P + target).square();
}

}  // namespace trireme::losses
