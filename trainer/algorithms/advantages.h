// From rewards to advantages. Pure functions, Torch-free.
#pragma once

#include <span>
#include <vector>

namespace trireme::algorithms {

/// One group's samples: (reward - mean) / (std + 1e-6) with the unbiased std; without the division if
/// !norm_by_std. A lone sample keeps its reward (mean 0, std 1).
/// Source: DeepSeekMath, arXiv:2402.03300, section 4.1.2; without std: Dr.GRPO, arXiv:2503.20783.
std::vector<double> grpo_advantages(std::span<const double> rewards, bool norm_by_std);

}  // namespace trireme::algorithms
