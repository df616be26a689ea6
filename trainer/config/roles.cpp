#include "trainer/config/roles.h"

namespace trireme::config {

placement::RoleRanks roles_of(const RunConfig& config, int num_ranks) {
  placement::RoleRanks roles;
  roles.actor = placement::parse_ranks(config.placement.actor, num_ranks, "placement.actor");
  roles.rollout = placement::parse_ranks(config.placement.rollout, num_ranks, "placement.rollout");
  if (has_reference(config))
    roles.reference = placement::parse_ranks(config.placement.reference, num_ranks, "placement.reference");
  roles.tp = {.actor = static_cast<int>(config.parallel.actor.tp),
              .reference = static_cast<int>(config.parallel.reference.tp),
              .rollout = static_cast<int>(config.parallel.rollout.tp)};
  return roles;
}

}  // namespace trireme::config
