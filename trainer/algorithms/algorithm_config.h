// [algorithm]: which objective, and its constants. Torch-free.
#pragma once

#include <cstdint>
#include <string>

namespace trireme::algorithms {

struct AlgorithmConfig {
  std::string name = "grpo";            // grpo | sft
  bool norm_adv_by_std_in_grpo = true;  // false: Dr.GRPO's advantage
  bool use_kl_in_reward = false;
  double kl_coef = 0.001;  // for use_kl_in_reward
};

}  // namespace trireme::algorithms
