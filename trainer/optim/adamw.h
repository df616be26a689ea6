// AdamW over flat fp32 masters: moments in buffers beside them, of the same layout; or outside of the device's
// memory, through which they then come in pieces, each while the one before is worked on.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "trainer/memory/outside.h"
#include "trainer/models/parameter_set.h"
#include "trainer/optim/optim_config.h"
#include "trainer/sharding/trained_parameters.h"

namespace trireme::optim {

class AdamW {
 public:
  /// Of a flat set that has gradients, or of the part of the masters that this rank has. Borrows them, and
  /// `outside`, where the moments are if it is given.
  AdamW(models::ParameterSet& parameters, const OptimConfig& config, memory::Outside* outside = nullptr);
  AdamW(sharding::TrainedParameters& parameters, const OptimConfig& config,
        memory::Outside* outside = nullptr);
  ~AdamW();
  AdamW(const AdamW&) = delete;
  AdamW& operator=(const AdamW&) = delete;

  /// Clips the gradient, whose norm over the whole model is `norm`, to config.grad_clip, and updates. A
  /// gradient that is not finite changes nothing.
  /// Local: ranks that hold the same gradient end with the same bits.
  /// Source: Loshchilov and Hutter, arXiv:1711.05101, algorithm 2.
  void step(double lr, double norm);
  /// Where this gradient is the whole model's: the same with its norm, which is returned.
  double step(double lr);

  int64_t updates() const { return updates_; }
  void set_updates(int64_t updates) { updates_ = updates; }
  enum Moment : size_t { first, second };
  /// On the host, laid out as the masters; where they are there, themselves.
  at::Tensor moment(Moment which) const;
  void set_moment(Moment which, const at::Tensor& values);

  /// Elements of a piece of moments that are outside: three of them are in the device's memory at one time.
  static constexpr int64_t kPiece = 4 << 20;

 private:
  // Neighbours that decay alike.
  struct Range {
    int64_t begin, length;
    bool decays;
  };
  AdamW(const at::Tensor& masters, const at::Tensor& gradient, std::vector<Range> ranges,
        const OptimConfig& config, memory::Outside* outside);

  // Moments of a range alone.
  struct Moments {
    at::Tensor first, second;
  };
  void step_through_pieces(double lr);
  void step(const Range& range, const Moments& moments, double lr);
  void step_here(const Range& range, const Moments& moments, double lr);
  void step_on_device(const Range& range, const Moments& moments, double lr);

  at::Tensor masters_, gradient_;
  std::vector<Range> ranges_;
  OptimConfig config_;
  memory::Outside* outside_;
  std::array<at::Tensor, 2> moments_;            // where they are there
  std::array<memory::Outside::Slot, 2> slots_{};  // where they are not
  int64_t updates_ = 0;
};

/// The learning rate of update `step` (from 0) of `total_steps`: linear warm-up from lr / warmup, then the
/// schedule down to min_lr_ratio * lr at the last step.
double learning_rate(const OptimConfig& config, int64_t step, int64_t total_steps);

}  // namespace trireme::optim
