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

struct Replicas {
  int64_t count = 1;
  const char* word = "ranks";  // what they are, one by one
};

void require_enough(const char* key, int64_t amount, const char* what, const Replicas& replicas,
                    const char* role, Mistakes& mistakes) {
  if (amount >= replicas.count) return;
  mistakes.add(key,
               fmt::format("{0} {1} are fewer than the {2} {4} {3}: each needs at least one (they need not "
                           "divide evenly); raise it to {2} or start fewer ranks",
                           amount, what, replicas.count, role, replicas.word));
}

// How many replicas of its model a role's ranks hold; its tp must divide them.
Replicas replicas_of(const char* key, int64_t tp, const std::set<int>& ranks, Mistakes& mistakes) {
  const auto count = static_cast<int64_t>(ranks.size());
  if (count % tp == 0) return {count / tp, tp == 1 ? "ranks" : "replicas"};
  std::string sizes;
  for (int64_t size = 1; size <= count; ++size)
    if (count % size == 0) sizes += fmt::format("{}{}", sizes.empty() ? "" : ", ", size);
  mistakes.add(key, fmt::format("{} does not divide this role's {} ranks; these do: {}", tp, count, sizes));
  return {};
}

}  // namespace

void check_ranks(const RunConfig& config, int num_ranks) {
  Mistakes mistakes;
  if (num_ranks < 1) fail(ErrorCode::invalid_config, "a run needs at least 1 rank, found {}", num_ranks);
  const auto actor = ranks_of("placement.actor", config.placement.actor, num_ranks, mistakes);
  const auto rollout = ranks_of("placement.rollout", config.placement.rollout, num_ranks, mistakes);
  const auto reference = ranks_of("placement.reference", config.placement.reference, num_ranks, mistakes);
  const bool rl = config.algorithm.name != "sft";
  const bool has_reference = config::has_reference(config);

  std::set<int> used = actor;
  used.insert(rollout.begin(), rollout.end());
  if (has_reference) used.insert(reference.begin(), reference.end());
  for (int rank = 0; rank < num_ranks; ++rank)
    if (!used.count(rank))
      mistakes.add("placement",
                   fmt::format("rank {} has no role: name it in placement.actor or placement.rollout, or "
                               "start fewer ranks",
                               rank));

  const Replicas actors = replicas_of("actor.parallel.tp", config.parallel.actor.tp, actor, mistakes);
  const Replicas rollouts = replicas_of("rollout.parallel.tp", config.parallel.rollout.tp, rollout, mistakes);
  if (has_reference) replicas_of("reference.parallel.tp", config.parallel.reference.tp, reference, mistakes);

  const char* const training = "that train (placement.actor)";
  if (rl) {
    const int64_t batch = config.data.train_batch_size;
    require_enough("data.train_batch_size", batch, "prompts", actors, training, mistakes);
    if (config.actor.ppo_mini_batch_size != 0 && batch >= actors.count)
      require_enough("actor.ppo_mini_batch_size", config.actor.ppo_mini_batch_size, "prompts", actors,
                     training, mistakes);
    if (rollout != actor || rollouts.count != actors.count)
      require_enough("data.train_batch_size", batch, "prompts", rollouts, "that generate (placement.rollout)",
                     mistakes);
  }
  if (!rl || config.sft.warm_start)
    require_enough("sft.train_batch_size", config.sft.train_batch_size, "examples", actors, training,
                   mistakes);
  if ((!rl || config.sft.warm_start) && config.sft.bare_batch_size > 0)
    require_enough("sft.bare_batch_size", config.sft.bare_batch_size, "examples", actors, training, mistakes);
  mistakes.throw_if_any(
      fmt::format("the configuration does not fit {} {}:", num_ranks, num_ranks == 1 ? "rank" : "ranks"));
}

}  // namespace trireme::config
