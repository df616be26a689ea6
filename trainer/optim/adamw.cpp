#include "trainer/optim/adamw.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/zeros_like.h>

#include "runtime/base/error.h"

namespace trireme::optim {

AdamW::AdamW(models::ParameterSet& parameters, const OptimConfig& config)
    : parameters_(parameters),
      config_(config),
      first_moment_(at::zeros_like(parameters.flat())),
      second_moment_(at::zeros_like(parameters.flat())) {
  TRIREME_CHECK(parameters.has_gradients(), "AdamW needs a parameter set with gradients");
}

double AdamW::step(double lr) {
  at::Tensor& gradient = parameters_.flat_gradient();
  const double norm = at::linalg_vector_norm(gradient).item<double>();
  if (!std::isfinite(norm)) return norm;
  if (config_.grad_clip > 0 && norm > config_.grad_clip) gradient.mul_(config_.grad_clip / (norm + 1e-6));
  ++updates_;
  const at::Tensor count = at::full({}, static_cast<double>(updates_), gradient.options());
  // Neighbours that decay alike are updated as one tensor.
  for (size_t i = 0; i < parameters_.size();) {
    const bool decays = parameters_.spec(i).weight_decay();
    const int64_t begin = parameters_.offset(i);
    int64_t length = 0;
    for (; i < parameters_.size() && parameters_.spec(i).weight_decay() == decays; ++i)
      length += parameters_.spec(i).numel();
    const auto part = [&](const at::Tensor& flat) {
      return std::vector<at::Tensor>{flat.narrow(0, begin, length)};
    };
    at::_fused_adamw_(part(parameters_.flat()), part(gradient), part(first_moment_), part(second_moment_), {},
                      {count}, lr, config_.beta1, config_.beta2, decays ? config_.weight_decay : 0.0,
                      config_.eps,
                      /*amsgrad=*/false, /*maximize=*/false);
  }
  return norm;
}

double learning_rate(const OptimConfig& config, int64_t step, int64_t total_steps) {
  if (step < config.lr_warmup_steps)
    return config.lr * static_cast<double>(step + 1) / static_cast<double>(config.lr_warmup_steps);
  const int64_t span = std::max<int64_t>(1, total_steps - config.lr_warmup_steps);
  const double progress =
      std::min(1.0, static_cast<double>(step - config.lr_warmup_steps) / static_cast<double>(span));
  if (config.lr_scheduler_type == "constant") return config.lr;
  const double remaining = config.lr_scheduler_type == "linear"
                               ? 1.0 - progress
                               : 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
  return config.lr * (config.min_lr_ratio + (1.0 - config.min_lr_ratio) * remaining);
}

}  // namespace trireme::optim
