// AdamW over flat fp32 masters: moments in buffers beside them, of the same layout.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "trainer/models/parameter_set.h"
#include "trainer/optim/optim_config.h"
#include "trainer/sharding/trained_parameters.h"

namespace trireme::optim {

class AdamW {
 public:
  /// Of a flat set that has gradients, or of the part of the masters that this rank has. Borrows them.
  AdamW(models::ParameterSet& parameters, const OptimConfig& config);
  AdamW(sharding::TrainedParameters& parameters, const OptimConfig& config);

  /// Clips the gradient, whose norm over the whole model is `norm`, to config.grad_clip, and updates. A
  /// gradient that is not finite changes nothing.
  /// Local: ranks that hold the same gradient end with the same bits.
  /// Source: Loshchilov and Hutter, arXiv:1711.05101, algorithm 2.
  void step(double lr, double norm);
  /// Where this gradient is the whole model's: the same with its norm, which is returned.
  double step(double lr);

  int64_t updates() const { return updates_; }
  void set_updates(int64_t updates) { updates_ = updates; }
  at::Tensor& first_moment() { return first_moment_; }
  at::Tensor& second_moment() { return second_moment_; }

 private:
  // Neighbours that decay alike.
  struct Range {
    int64_t begin, length;
    bool decays;
  };
  AdamW(const at::Tensor& masters, const at::Tensor& gradient, std::vector<Range> ranges,
        const OptimConfig& config);

  void step_here(const Range& range, double lr);
  void step_on_device(const Range& range, double lr);

  at::Tensor masters_, gradient_;
  std::vector<Range> ranges_;
  OptimConfig config_;
  at::Tensor first_moment_, second_moment_;
  int64_t updates_ = 0;
};

/// The learning rate of update `step` (from 0) of `total_steps`: linear warm-up from lr / warmup, then the
/// schedule down to min_lr_ratio * lr at the last step.
double learning_rate(const OptimConfig& config, int64_t step, int64_t total_steps);

}  // namespace trireme::optim
