// AdamW over a ParameterSet: moments in flat fp32 buffers beside the masters.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "trainer/models/parameter_set.h"
#include "trainer/optim/optim_config.h"

namespace trireme::optim {

class AdamW {
 public:
  /// Borrows `parameters`, which has gradients.
  AdamW(models::ParameterSet& parameters, const OptimConfig& config);

  /// Clips the whole gradient to config.grad_clip and updates; the gradient's norm before clipping is
  /// returned. A gradient that is not finite changes nothing (and the norm says so).
  /// Local: ranks that hold the same gradient end with the same bits.
  /// Source: Loshchilov and Hutter, arXiv:1711.05101, algorithm 2.
  double step(double lr);

  int64_t updates() const { return updates_; }
  void set_updates(int64_t updates) { updates_ = updates; }
  at::Tensor& first_moment() { return first_moment_; }
  at::Tensor& second_moment() { return second_moment_; }

 private:
  models::ParameterSet& parameters_;
  OptimConfig config_;
  at::Tensor first_moment_, second_moment_;
  int64_t updates_ = 0;
};

/// The learning rate of update `step` (from 0) of `total_steps`: linear warm-up from lr / warmup, then the
/// schedule down to min_lr_ratio * lr at the last step.
double learning_rate(const OptimConfig& config, int64_t step, int64_t total_steps);

}  // namespace trireme::optim
