// KL to the reference in the loss. Pure functions.
#pragma once

#include <string>

#include <ATen/core/Tensor.h>

namespace trireme::losses {

/// Per-token estimate of KL(new || reference) from log-probabilities of sampled tokens, [N]:
///   kl, k1: new - ref;  abs: |new - ref|;  mse, k2: (new - ref)^2 / 2;
///   low_var_kl, k3: exp(ref - new) - (ref - new) - 1, input clamped to +-20, result to +-10.
/// A "+" behind the name keeps the value and takes k2's gradient, whose expectation is that of the KL.
/// Throws invalid_config on another name.
/// Source: Schulman, "Approximating KL divergence", 2020; "+": verl kl_penalty.
at::Tensor kl_estimate(const at::Tensor& log_probs_N, const at::Tensor& reference_N, const std::string& type);

}  // namespace trireme::losses
