#include "trainer/algorithms/estimators.h"

#include "runtime/base/error.h"

namespace trireme::algorithms {
namespace {

constexpr Estimator kFunctions[] = {
    {"grpo", grpo},
    {"dr_grpo", dr_grpo},
    {"rloo", rloo},
    {"reinforce_plus_plus", reinforce_plus_plus, whiten},
    {"reinforce_plus_plus_baseline", reinforce_plus_plus_baseline, whiten},
    {"remax", remax},
    {"opo", opo},
    {"gpg", gpg, scale_by_nonzero},
    {"grpo_passk", grpo_passk},
    {"gae", gae, whiten},
};

}  // namespace

std::span<const Estimator> estimators() {
  return kFunctions;
}

const Estimator& find_estimator(const std::string& name) {
  for (const Estimator& estimator : kFunctions)
    if (name == estimator.name) return estimator;
  fail(ErrorCode::invalid_config, "algorithm.adv_estimator '{}' is unknown", name);
}

}  // namespace trireme::algorithms
