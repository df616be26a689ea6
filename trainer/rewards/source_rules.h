// Which rule judges the responses to a row, by the name of the data set that the row is from.
#pragma once

#include <optional>
#include <string>

#include "trainer/rewards/reward_config.h"

namespace trireme::rewards {

/// `config` with the rule for `data_source` as its name: by reward.sources, else as verl's
/// default_compute_score chooses, with verl's scores. Nothing where neither knows the source. Throws
/// invalid_config where an entry of reward.sources is not SOURCE=RULE.
std::optional<RewardConfig> rule_for_source(const RewardConfig& config, const std::string& data_source);

}  // namespace trireme::rewards
