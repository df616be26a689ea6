#include "trainer/costs/advice.h"

#include <algorithm>

#include <fmt/format.h>

namespace trireme::costs {
namespace {

class Changes {
 public:
  Changes(const Job& job, const Outcome& now) : job_(job), now_(now) {}

  void add(std::string setting, std::string kind, Job changed) {
    Change change{std::move(setting), std::move(kind), std::move(changed)};
    change.outcome = outcome_of(change.job);
    change.gain = 1 - change.outcome.time.seconds / now_.time.seconds;
    change.fits_at_last = change.outcome.fits && !now_.fits;
    all_.push_back(std::move(change));
  }

  // tp of a role, its dp filling what is left.
  void add_tp(PlannedRole which) {
    const RoleJob& role = job_.role(which);
    if (!role.present) return;
    for (const int64_t tp : possible_tp(job_.model, job_.machine.devices_per_node)) {
      const int64_t now = role.layout.tp;
      if (tp == now || (tp != 2 * now && 2 * tp != now)) continue;
      const int64_t others = role.layout.pp * role.layout.cp * tp;
      if (role.layout.ranks() % others != 0) continue;
      Job changed = job_;
      Layout& layout = changed.role(which).layout;
      layout.dp = role.layout.ranks() / others;
      layout.tp = tp;
      add(fmt::format("{}.parallel.tp = {}", to_string(which), tp), fmt::format("{} tp", to_string(which)),
          std::move(changed));
    }
  }

  void add_actor() {
    const Layout& now = job_.role(PlannedRole::actor).layout;
    for (int64_t zero = 0; zero <= 3 && now.dp > 1; ++zero) {
      if (zero == now.zero_stage) continue;
      Job changed = job_;
      changed.role(PlannedRole::actor).layout.zero_stage = zero;
      add(fmt::format("actor.parallel.zero_stage = {}", zero), "ZeRO", std::move(changed));
    }
    {
      Job changed = job_;
      for (const PlannedRole role : {PlannedRole::actor, PlannedRole::critic})
        changed.role(role).layout.recompute = !now.recompute;
      add(fmt::format("model.enable_gradient_checkpointing = {}", !now.recompute), "recompute",
          std::move(changed));
    }
    if (now.exact) {
      Job changed = job_;
      changed.role(PlannedRole::actor).layout.exact = false;
      add("actor.parallel.reduce = \"fast\"", "reduce", std::move(changed));
    }
    const int64_t most = largest_micro_tokens(job_, 1 << 18);
    if (most > 0 && most != now.micro_tokens) {
      Job changed = job_;
      changed.role(PlannedRole::actor).layout.micro_tokens = most;
      add(fmt::format("actor.ppo_max_token_len_per_rank = {}", most), "micro-batch", std::move(changed));
    }
  }

  void add_rollout() {
    if (!job_.role(PlannedRole::rollout).present) return;
    if (now_.kv_most > now_.kv_tokens && now_.kv_tokens < now_.kv_wanted) {
      Job changed = job_;
      changed.limits.kv_cache_tokens =
          std::min(now_.kv_most, now_.kv_wanted) / job_.limits.page_size * job_.limits.page_size;
      if (changed.limits.kv_cache_tokens > 0)
        add(fmt::format("rollout.kv_cache_tokens = {}", changed.limits.kv_cache_tokens), "KV cache",
            std::move(changed));
    } else if (now_.kv_most < now_.kv_tokens && now_.kv_most > job_.limits.max_model_len) {
      Job changed = job_;
      changed.limits.kv_cache_tokens = now_.kv_most / job_.limits.page_size * job_.limits.page_size;
      add(fmt::format("rollout.kv_cache_tokens = {}", changed.limits.kv_cache_tokens), "KV cache",
          std::move(changed));
    }
    for (const int64_t factor : {2, 4}) {
      Job changed = job_;
      changed.limits.max_num_seqs = job_.limits.max_num_seqs * factor;
      add(fmt::format("rollout.max_num_seqs = {}", changed.limits.max_num_seqs), "slots", std::move(changed));
    }
  }

  // Both sides at the same time, where rollout has ranks of its own.
  void add_side_by_side() {
    const RoleJob &actor = job_.role(PlannedRole::actor), &judge = job_.role(PlannedRole::reward_model);
    const auto is_apart = [&](const RoleJob& role) { return role.first >= actor.end() || actor.first >= role.end(); };
    const RoleJob& rollout = job_.role(PlannedRole::rollout);
    if (!rollout.present || !actor.present || !is_apart(rollout) || job_.steps_ahead) return;
    if (judge.present && !is_apart(judge)) return;
    Job ahead = job_;
    ahead.steps_ahead = true;
    ahead.stream = false;
    ahead.work.old_log_prob = true;  // importance correction wants it
    add("rollout.steps_ahead = 1", "overlap", std::move(ahead));
    if (job_.stream || job_.work.updates <= 1 || judge.present) return;
    Job parts = job_;
    parts.stream = true;
    add("rollout.stream = true", "overlap", std::move(parts));
  }

  std::vector<Change> take() {
    std::ranges::stable_sort(all_, [](const Change& a, const Change& b) {
      if (a.outcome.fits != b.outcome.fits) return a.outcome.fits;
      return a.outcome.time.seconds < b.outcome.time.seconds;
    });
    return std::move(all_);
  }

 private:
  const Job& job_;
  const Outcome& now_;
  std::vector<Change> all_;
};

}  // namespace

std::vector<Change> changes_of(const Job& job, const Outcome& now) {
  Changes changes(job, now);
  for (const PlannedRole role : {PlannedRole::actor, PlannedRole::rollout, PlannedRole::reference})
    changes.add_tp(role);
  changes.add_actor();
  changes.add_rollout();
  changes.add_side_by_side();
  return changes.take();
}

std::vector<Change> worthwhile(const std::vector<Change>& changes) {
  std::vector<Change> some;
  for (const Change& change : changes)
    if (change.fits_at_last || (change.outcome.fits && change.gain >= 0.01)) some.push_back(change);
  return some;
}

}  // namespace trireme::costs
