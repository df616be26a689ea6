#include <fmt/format.h>

#include <numeric>
#include <set>

#include "runtime/base/error.h"
#include "trainer/config/load.h"
#include "trainer/config/rank_list.h"

namespace trireme::config {
namespace {

// The ranks of one role, of those that exist.
std::set<int> ranks_of(const char* key, const std::string& text, int num_ranks, Mistakes& mistakes) {
  const RankList list = read_ranks(text);
  if (!list.wrong.empty()) mistakes.add(key, fmt::format("\"{}\" {}", text, list.wrong));
  std::set<int> ranks(list.ranks.begin(), list.ranks.end());
  if (list.ranks.empty())
    for (int rank = 0; rank < num_ranks; ++rank) ranks.insert(rank);
  const auto beyond = ranks.lower_bound(num_ranks);
  if (beyond != ranks.end()) {
    mistakes.add(key, fmt::format("\"{}\" names rank {}, but the run has {} ({}): start at least {}", text,
                                  *beyond, num_ranks == 1 ? "1 rank" : fmt::format("{} ranks", num_ranks),
                                  num_ranks == 1 ? "rank 0" : fmt::format("0 to {}", num_ranks - 1),
                                  *ranks.rbegin() + 1));
    ranks.erase(beyond, ranks.end());
  }
  return ranks;
}

// What an axis of `size` needs, where the others take `others` ranks of each replica.
void require_divisor(const std::string& key, int64_t size, int64_t others, int64_t count,
                     Mistakes& mistakes) {
  if (size == 1 || count % (size * others) == 0) return;
  std::string sizes;
  for (int64_t other = 1; other <= count; ++other)
    if (count % (other * others) == 0) sizes += fmt::format("{}{}", sizes.empty() ? "" : ", ", other);
  const std::string beside =
      others == 1 ? "" : fmt::format(" beside the other axes' {} of each replica", others);
  mistakes.add(key, fmt::format("{} does not divide this role's {} ranks{}; these do: {}", size, count,
                                beside, sizes.empty() ? "none" : sizes));
}

template <typename Parallel>
void require_divisors(const std::string& role, const Parallel& parallel, const std::set<int>& ranks,
                      Mistakes& mistakes) {
  const auto count = static_cast<int64_t>(ranks.size());
  const int64_t replica = parallel.tp * parallel.pp * parallel.cp;
  require_divisor(role + ".parallel.tp", parallel.tp, replica / parallel.tp, count, mistakes);
  require_divisor(role + ".parallel.pp", parallel.pp, replica / parallel.pp, count, mistakes);
  require_divisor(role + ".parallel.cp", parallel.cp, replica / parallel.cp, count, mistakes);
}

}  // namespace

void check_ranks(const RunConfig& config, int num_ranks) {
  Mistakes mistakes;
  if (num_ranks < 1) fail(ErrorCode::invalid_config, "a run needs at least 1 rank, found {}", num_ranks);
  const auto actor = ranks_of("placement.actor", config.placement.actor, num_ranks, mistakes);
  const bool has_rollout = config::has_rollout(config);
  const auto rollout = ranks_of("placement.rollout", config.placement.rollout, num_ranks, mistakes);
  const auto reference = ranks_of("placement.reference", config.placement.reference, num_ranks, mistakes);
  const auto critic = ranks_of("placement.critic", config.placement.critic, num_ranks, mistakes);
  const auto reward_model =
      ranks_of("placement.reward_model", config.placement.reward_model, num_ranks, mistakes);
  const bool has_reference = config::has_reference(config), has_critic = config::has_critic(config),
             has_reward_model = config::has_reward_model(config);

  std::set<int> used = actor;
  if (has_rollout) used.insert(rollout.begin(), rollout.end());
  if (has_critic) used.insert(critic.begin(), critic.end());
  if (has_reference) used.insert(reference.begin(), reference.end());
  if (has_reward_model) used.insert(reward_model.begin(), reward_model.end());
  for (int rank = 0; rank < num_ranks; ++rank)
    if (!used.count(rank))
      mistakes.add("placement",
                   fmt::format("rank {} has no role: name it in placement.actor or placement.rollout, or "
                               "start fewer ranks",
                               rank));

  require_divisors("actor", config.parallel.actor, actor, mistakes);
  if (has_rollout) require_divisors("rollout", config.parallel.rollout, rollout, mistakes);
  if (has_reference) require_divisors("reference", config.parallel.reference, reference, mistakes);
  if (has_critic) require_divisors("critic", config.parallel.critic, critic, mistakes);
  if (has_reward_model)
    require_divisors("reward_model", config.parallel.reward_model, reward_model, mistakes);
  mistakes.throw_if_any(
      fmt::format("the configuration does not fit {} {}:", num_ranks, num_ranks == 1 ? "rank" : "ranks"));
}

}  // namespace trireme::config
