// Rollout that works while training does: a step ahead, or on the rest of a batch.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <utility>

#include "trainer/algorithms/estimator_config.h"
#include "trainer/config/checks.h"
#include "trainer/config/rank_list.h"

namespace trireme::config {
namespace {

// Where a role's ranks are, in words.
std::string written_as(const std::string& key, const std::string& text) {
  return text.empty() ? key + " is all ranks" : fmt::format("{} = \"{}\"", key, text);
}

struct LearningRole {
  const char* key;
  const std::string* ranks;
  bool exists;
};
std::array<LearningRole, 3> roles_that_learn(const RunConfig& config) {
  return {{{"placement.actor", &config.placement.actor, true},
           {"placement.critic", &config.placement.critic, has_critic(config)},
           {"placement.reference", &config.placement.reference, has_reference(config)}}};
}

using Refuse = std::function<void(std::string why)>;

// `setting`: as it is written. Returns false where nothing else is worth saying.
bool check_algorithm(const Written& written, const std::string& setting, const Refuse& refuse) {
  const RunConfig& config = written.config;
  if (uses_policy_gradient(config)) return true;
  if (!written.in_doubt.count("algorithm.name"))
    refuse(fmt::format(
        "{} goes with reinforcement learning (algorithm.name = \"rl\" or \"grpo\"), "
        "whose loss knows how likely a response was; leave it out with algorithm.name = \"{}\"",
        setting, config.algorithm.name));
  return false;
}

void check_ranks_of_its_own(const Written& written, const std::string& setting, const Refuse& refuse) {
  const RunConfig& config = written.config;
  const auto& placement = config.placement;
  const RankList own = read_ranks(placement.rollout);
  const std::set<int> rollout(own.ranks.begin(), own.ranks.end());
  for (const auto& [key, text, exists] : roles_that_learn(config)) {
    if (!exists || written.in_doubt.count(key) || written.in_doubt.count("placement.rollout")) continue;
    const RankList others = read_ranks(*text);
    bool shared = rollout.empty() || others.ranks.empty();
    for (const int rank : others.ranks) shared = shared || rollout.count(rank) > 0;
    if (!shared) continue;
    refuse(fmt::format("{} generates while the others learn, on ranks of its own, and {}, "
                       "{}: name different ranks, as placement.rollout = \"1\" and {} = \"0\"",
                       setting, written_as("placement.rollout", placement.rollout), written_as(key, *text), key));
  }
  if (!has_reward_model(config) || written.in_doubt.count("placement.reward_model")) return;
  const RankList judges = read_ranks(placement.reward_model);
  for (const auto& [key, text, exists] : roles_that_learn(config)) {
    if (!exists || written.in_doubt.count(key)) continue;
    const RankList others = read_ranks(*text);
    const std::set<int> learning(others.ranks.begin(), others.ranks.end());
    bool shared = judges.ranks.empty() || learning.empty();
    for (const int rank : judges.ranks) shared = shared || learning.count(rank) > 0;
    if (!shared) continue;
    refuse(fmt::format("{}: the reward model judges while the others learn, and {}, {}: name ranks of rollout for "
                       "it, or ranks of its own",
                       setting, written_as("placement.reward_model", placement.reward_model), written_as(key, *text)));
    return;
  }
}

}  // namespace

void check_steps_ahead(Written& written) {
  constexpr const char* kKey = "rollout.steps_ahead";
  const int64_t ahead = written.config.rollout.steps_ahead;
  if (ahead == 0 || written.in_doubt.count(kKey)) return;
  const std::string setting = fmt::format("{} = {}", kKey, ahead);
  const Refuse refuse = [&](std::string why) { written.mistakes.add(written.where(kKey), std::move(why)); };
  if (check_algorithm(written, setting, refuse)) check_ranks_of_its_own(written, setting, refuse);
}

void check_stream(Written& written) {
  constexpr const char* kKey = "rollout.stream";
  const RunConfig& config = written.config;
  if (!config.rollout.stream || written.in_doubt.count(kKey)) return;
  const std::string setting = fmt::format("{} = true", kKey);
  const Refuse refuse = [&](std::string why) { written.mistakes.add(written.where(kKey), std::move(why)); };
  if (!check_algorithm(written, setting, refuse)) return;
  check_ranks_of_its_own(written, setting, refuse);
  if (has_reward_model(config))
    refuse(fmt::format("{} does not go with a reward model, which judges a batch as a whole; rollout.steps_ahead does",
                       setting));
  if (config.rollout.steps_ahead > 0)
    refuse(fmt::format("{} brings nothing to rollout.steps_ahead = {}, where both sides work all the time "
                       "already: leave out one of them",
                       setting, config.rollout.steps_ahead));
  if (config.algorithm.filter_groups.enable)
    refuse(fmt::format("{} sends a mini-batch before the batch is known, and "
                       "algorithm.filter_groups.enable = true chooses from all of it: leave out one of them",
                       setting));
  if (!written.in_doubt.count("algorithm.adv_estimator") &&
      algorithms::needs_of(config.algorithm.adv_estimator).greedy_response)
    refuse(fmt::format("{} does not go with algorithm.adv_estimator = \"{}\", whose greedy responses are made "
                       "behind the batch",
                       setting, config.algorithm.adv_estimator));
  const int64_t batch = config.data.train_batch_size, part = config.actor.ppo_mini_batch_size;
  if (!written.in_doubt.count("actor.ppo_mini_batch_size") && (part <= 0 || part >= batch))
    refuse(fmt::format("{} sends mini-batch by mini-batch, and there is one a step: set "
                       "actor.ppo_mini_batch_size below data.train_batch_size = {}, as {}",
                       setting, batch, std::max<int64_t>(1, batch % 4 == 0 ? batch / 4 : 1)));
}

}  // namespace trireme::config
