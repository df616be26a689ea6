// What can be written for algorithm.adv_estimator. Torch-free.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>

namespace trireme::algorithms {

/// An estimator's name, and what it asks of the rest of the step.
struct EstimatorNeeds {
  const char* name;
  int64_t least_samples = 1;     // responses to a prompt, for it to be of use
  bool values = false;           // a critic
  bool greedy_response = false;  // to each prompt
};

/// estimators.cpp has their functions, in this order.
inline constexpr EstimatorNeeds kEstimators[] = {{"grpo", 2},
                                                 {"dr_grpo", 2},
                                                 {"rloo"},  // of a lone response, REINFORCE
                                                 {"reinforce_plus_plus"},
                                                 {"reinforce_plus_plus_baseline", 2},
                                                 {"remax", 1, false, true},
                                                 {"opo", 2},
                                                 {"gpg", 2},
                                                 {"grpo_passk", 2},
                                                 {"gae", 1, true}};

/// `name` is one of them.
inline const EstimatorNeeds& needs_of(const std::string& name) {
  return *std::find_if(std::begin(kEstimators), std::end(kEstimators) - 1,
                       [&](const EstimatorNeeds& estimator) { return name == estimator.name; });
}

}  // namespace trireme::algorithms
