// An answer's score and what else a response is worth, added up by their weights.
#pragma once

#include <memory>

#include "trainer/rewards/scorer.h"

namespace trireme::rewards {

/// Whether the configuration gives anything but the answer a weight, or the answer one of its own.
bool is_shaped(const RewardConfig& config);

/// reward.weight times what `answer` says, plus each component times its weight. What the components come to
/// is in the extras: answer, format, repetition, cosine; correct and has_format stay the answer's. Throws
/// invalid_config where reward.format.pattern is no regular expression.
std::unique_ptr<Scorer> shaped_scorer(const RewardConfig& config, std::unique_ptr<Scorer> answer);

}  // namespace trireme::rewards
