// How the ranks of one role share its model, and what a plan is asked about. Torch-free.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

namespace trireme::costs {

/// dp x pp x cp x tp ranks; tp is the inner axis, dp the outer one.
struct Layout {
  int64_t dp = 1, pp = 1, cp = 1, tp = 1;
  int64_t zero_stage = 0;        // without effect where dp and cp are 1
  bool recompute = false;        // training keeps a layer's input only
  bool exact = false;            // gradients are summed as whole numbers
  int64_t micro_tokens = 16384;  // rows of one pass of a replica's cp rank
  // What leaves the device's memory while it is not needed (trainer/memory/offload_config.h); activations
  // where layers are computed again.
  bool param_offload = false, optimizer_offload = false, activation_offload = false;

  int64_t ranks() const { return dp * pp * cp * tp; }
  /// Ranks that hold the same weights: gradients are summed over them, ZeRO shares out between them.
  int64_t shards() const { return dp * cp; }
  int64_t zero() const { return shards() == 1 ? 0 : zero_stage; }
  /// Without axes of one rank: "dp 8 x tp 2, ZeRO 1, recompute"
  std::string text() const;
};

/// Which kernels compute a role: they decide what is held beside the weights.
struct Target {
  int64_t element = 2;          // bytes of the compute type
  bool on_cpu = false;          // matrices are held once more, packed
  bool flash_backward = false;  // attention's backward pass keeps no scores
  bool fp32() const { return element == 4; }
};

}  // namespace trireme::costs
