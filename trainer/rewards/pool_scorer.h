// Judging by a user's code: a function in a Python file, or a program that speaks JSON lines (docs/rewards.md).
#pragma once

#include <memory>

#include "trainer/rewards/scorer.h"

namespace trireme::rewards {

/// Throws invalid_config if reward.function.kwargs is no JSON object, io if no process can be started.
std::unique_ptr<Scorer> pool_scorer(const RewardConfig& config, ScorerOptions options);

}  // namespace trireme::rewards
