// KL to the reference in the reward: how much of it, and how its weight is held. Torch-free.
#pragma once

#include <cstdint>
#include <string>

#include "trainer/algorithms/algorithm_config.h"

namespace trireme::algorithms {

/// An estimate of KL(policy || reference) from one sampled token, by the names and clamps of
/// losses::kl_estimate; only its value counts here, so a trailing "+" changes nothing.
/// Throws invalid_config on another name.
double kl_of_token(double log_prob, double reference, const std::string& type);

/// The weight of the KL in the reward, over a run. Its whole state is the coefficient.
class KlController {
 public:
  explicit KlController(const KlControl& config) : config_(config), coefficient_(config.kl_coef) {}

  double coefficient() const { return coefficient_; }
  void set_coefficient(double coefficient) { coefficient_ = coefficient; }
  /// After a step whose responses were `kl` from the reference, in nats per token, on average: adaptive
  /// control multiplies the weight by 1 + clip(kl / target - 1, +-0.2) responses / horizon.
  /// Source: Ziegler et al. 2019, arXiv:1909.08593.
  void update(double kl, int64_t responses);

 private:
  KlControl config_;
  double coefficient_;
};

}  // namespace trireme::algorithms
