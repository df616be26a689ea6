// [algorithm.dpo]: what a pair of a chosen and a rejected answer costs. Torch-free.
#pragma once

#include <string>

namespace trireme::losses {

/// algorithm.dpo.loss_type; preference_loss.cpp has their functions, in this order.
inline constexpr const char* kPreferenceLosses[] = {"sigmoid",  "sigmoid_norm", "hinge",    "ipo",
                                                    "robust",   "exo_pair",     "nca_pair", "bco_pair",
                                                    "apo_zero", "apo_down",     "sppo_hard"};

struct PreferenceLossConfig {
  double beta = 0.1;  // how strongly the policy is held to the reference; ipo: its tau
  std::string loss_type = "sigmoid";
  double label_smoothing = 0.0;  // how probable it is that a pair's labels are swapped
  bool reference_free = false;   // log-probabilities stand in place of their ratios to the reference
  double sft_coef = 0.0;         // of the chosen answers' mean negative log-probability, added to the loss
};

}  // namespace trireme::losses
