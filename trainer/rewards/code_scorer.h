// Responses that are programs: run in a sandbox against the tests in their ground truths, several side by
// side, while others are still generated.
#pragma once

#include <memory>

#include "trainer/rewards/scorer.h"

namespace trireme::rewards {

/// As reward.code says. Extras: tests_passed, the share of the tests that were run; tests_timed_out, whether
/// one of them took all its time. Throws invalid_config where programs cannot be run (Sandbox).
std::unique_ptr<Scorer> code_scorer(const RewardConfig& config);

}  // namespace trireme::rewards
