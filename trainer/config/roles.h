// Which ranks have which role, as [placement] and [ROLE.parallel] say it.
#pragma once

#include "runtime/placement/role_ranks.h"
#include "trainer/config/run_config.h"

namespace trireme::config {

/// A run's roles on `num_ranks` ranks; no reference where no KL needs one, no critic where no estimator does,
/// no reward model where none is named.
/// Throws invalid_config for ranks that do not exist; that tp divides them is check_ranks()'s to see.
placement::RoleRanks roles_of(const RunConfig& config, int num_ranks);

}  // namespace trireme::config
