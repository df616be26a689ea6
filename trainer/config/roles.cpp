#include "trainer/config/roles.h"

namespace trireme::config {

placement::RoleRanks roles_of(const RunConfig& config, int num_ranks) {
  placement::RoleRanks roles;
  roles.actor = placement::parse_ranks(config.placement.actor, num_ranks, "placement.actor");
  if (has_rollout(config))
    roles.rollout = placement::parse_ranks(config.placement.rollout, num_ranks, "placement.rollout");
  if (has_critic(config))
    roles.critic = placement::parse_ranks(config.placement.critic, num_ranks, "placement.critic");
  if (has_reference(config))
    roles.reference = placement::parse_ranks(config.placement.reference, num_ranks, "placement.reference");
  if (has_reward_model(config))
    roles.reward_model =
        placement::parse_ranks(config.placement.reward_model, num_ranks, "placement.reward_model");
  const auto axes = [](const auto& parallel) {
    return placement::ReplicaAxes{static_cast<int>(parallel.pp), static_cast<int>(parallel.cp),
                                  static_cast<int>(parallel.tp)};
  };
  roles.axes = {.actor = axes(config.parallel.actor),
                .critic = axes(config.parallel.critic),
                .reference = axes(config.parallel.reference),
                .rollout = axes(config.parallel.rollout),
                .reward_model = axes(config.parallel.reward_model)};
  return roles;
}

}  // namespace trireme::config
