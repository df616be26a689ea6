// [rollout.val_kwargs]: how held-out problems are asked. Torch-free.
#pragma once

#include <cstdint>

namespace trireme::evaluation {

struct ValidationConfig {
  int64_t n = 1;             // responses to each problem
  double temperature = 0.0;  // 0: greedily
  int64_t top_k = -1;        // -1: all
  double top_p = 1.0;
};

}  // namespace trireme::evaluation
