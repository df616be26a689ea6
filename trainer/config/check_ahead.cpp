#include <fmt/format.h>

#include <set>
#include <tuple>
#include <utility>

#include "trainer/config/checks.h"
#include "trainer/config/rank_list.h"

namespace trireme::config {
namespace {

constexpr const char* kKey = "rollout.steps_ahead";

// Where a role's ranks are, in words.
std::string written_as(const std::string& key, const std::string& text) {
  return text.empty() ? key + " is all ranks" : fmt::format("{} = \"{}\"", key, text);
}

}  // namespace

void check_steps_ahead(Written& written) {
  const RunConfig& config = written.config;
  const int64_t ahead = config.rollout.steps_ahead;
  if (ahead == 0 || written.in_doubt.count(kKey)) return;
  const auto refuse = [&](std::string why) { written.mistakes.add(written.where(kKey), std::move(why)); };
  if (!uses_policy_gradient(config)) {
    if (!written.in_doubt.count("algorithm.name"))
      refuse(fmt::format(
          "rollout.steps_ahead = {} goes with reinforcement learning (algorithm.name = \"rl\" or \"grpo\"), "
          "whose loss knows how likely a response was; leave it out with algorithm.name = \"{}\"",
          ahead, config.algorithm.name));
    return;
  }
  if (has_reward_model(config))
    refuse(fmt::format("rollout.steps_ahead = {} does not go with a reward model yet: its ranks would have to "
                       "follow both sides; leave out one of them",
                       ahead));
  const auto& placement = config.placement;
  const RankList own = read_ranks(placement.rollout);
  const std::set<int> rollout(own.ranks.begin(), own.ranks.end());
  for (const auto& [key, text, exists] :
       {std::tuple{"placement.actor", &placement.actor, true},
        std::tuple{"placement.critic", &placement.critic, has_critic(config)},
        std::tuple{"placement.reference", &placement.reference, has_reference(config)}}) {
    if (!exists || written.in_doubt.count(key) || written.in_doubt.count("placement.rollout")) continue;
    const RankList others = read_ranks(*text);
    bool shared = rollout.empty() || others.ranks.empty();
    for (const int rank : others.ranks) shared = shared || rollout.count(rank) > 0;
    if (!shared) continue;
    refuse(fmt::format("rollout.steps_ahead = {} generates while the others learn, on ranks of its own, and {}, "
                       "{}: name different ranks, as placement.rollout = \"1\" and {} = \"0\"",
                       ahead, written_as("placement.rollout", placement.rollout), written_as(key, *text), key));
  }
}

}  // namespace trireme::config
