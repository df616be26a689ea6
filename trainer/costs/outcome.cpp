#include "trainer/costs/outcome.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "trainer/costs/memory.h"

namespace trireme::costs {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// Ranks between two places where roles begin or end hold the same.
std::vector<RankMemory> kinds_of_ranks(const Job& job) {
  std::set<int64_t> places;
  for (const RoleJob& role : job.roles)
    if (role.present) places.insert({role.first, role.end()});
  std::vector<RankMemory> kinds;
  for (auto place = places.begin(); std::next(place) != places.end(); ++place)
    kinds.push_back({.first = *place, .end = *std::next(place)});
  return kinds;
}

int64_t longest_sequence(const Job& job) {
  return static_cast<int64_t>(job.work.prompt_tokens + job.work.response_limit);
}

// Rows of the actor's, critic's or reference's largest pass: as many as are allowed, or as there are.
int64_t pass_rows(const Job& job, const Layout& layout, double updates) {
  const double all = job.work.rows() * job.work.epochs / static_cast<double>(layout.dp) / updates;
  return std::min(layout.micro_tokens * layout.cp,
                  std::max<int64_t>(static_cast<int64_t>(all), longest_sequence(job)));
}

void add_roles(const Job& job, RankMemory& ranks) {
  const auto hold = [&](std::string name, int64_t bytes) {
    if (bytes > 0) ranks.held.push_back({std::move(name), bytes});
  };
  const auto phase = [&](const char* name, int64_t bytes) { ranks.phases.push_back({name, bytes}); };
  hold("runtime and libraries", reserved_bytes(job));
  const auto trained = [&](PlannedRole role, const ModelShape& shape, double updates, const char* update,
                           const char* read) {
    const RoleJob& mine = job.role(role);
    if (!mine.has(ranks.first)) return;
    const bool weights_stay = role == PlannedRole::actor && job.shares_weights();
    const Presence there =
        presence_of(state_bytes(shape, mine.layout, job.target), mine.layout, job.target, weights_stay);
    hold(fmt::format("{} state", to_string(role)), there.between);
    const int64_t rows = pass_rows(job, mine.layout, updates);
    const int64_t micro_batches =
        ceil_div(static_cast<int64_t>(job.work.rows() / static_cast<double>(mine.layout.dp) / updates), rows);
    if (*read)
      phase(read, there.reading - there.between +
                      forward_pass_bytes(shape, mine.layout, job.target, rows).total());
    PassBytes pass =
        training_pass_bytes(shape, mine.layout, job.target, rows, longest_sequence(job), micro_batches);
    pass.kept += there.passes - there.between;
    pass.update = std::max(pass.update, there.pieces) + there.update - there.between;
    phase(update, pass.total());
  };
  trained(PlannedRole::actor, job.model, job.work.updates, "update_actor",
          job.work.old_log_prob ? "old_log_prob" : "");
  trained(PlannedRole::critic, job.critic_model, job.work.critic_updates, "update_critic", "values");
  const auto reads = [&](PlannedRole role, const ModelShape& shape, const char* weights, const char* stage) {
    const RoleJob& mine = job.role(role);
    if (!mine.has(ranks.first)) return;
    const int64_t bytes = weight_bytes(shape, mine.layout, job.target, false);
    const bool comes = mine.layout.param_offload;
    hold(weights, comes ? 0 : bytes);
    phase(stage,
          (comes ? bytes : 0) +
              forward_pass_bytes(shape, mine.layout, job.target, pass_rows(job, mine.layout, 1)).total());
  };
  reads(PlannedRole::reference, job.model, "reference weights", "ref");
  reads(PlannedRole::reward_model, job.reward_model, "reward model weights", "reward_model");
  if (const RoleJob& rollout = job.role(PlannedRole::rollout); rollout.has(ranks.first)) {
    if (!job.shares_weights())
      hold("rollout weights", weight_bytes(job.model, rollout.layout, job.target, true));
    phase("gen", generation_step_bytes(job.model, rollout.layout.tp, job.target,
                                       std::max(job.limits.max_num_seqs, job.limits.max_num_batched_tokens),
                                       job.limits.max_num_seqs));
  }
}

// As the rollout engine will size it, and what there would be room for.
void size_cache(const Job& job, Outcome& outcome) {
  const RoleJob& rollout = job.role(PlannedRole::rollout);
  if (!rollout.present) return;
  const auto& limits = job.limits;
  const int64_t token = job.model.kv_bytes_per_token(job.target.element, rollout.layout.tp);
  const int64_t pages = ceil_div(limits.max_model_len, limits.page_size);
  outcome.kv_wanted = limits.max_num_seqs * (pages + 1) * limits.page_size;
  int64_t held = 0, peak = 0;
  for (const RankMemory& ranks : outcome.memory) {
    if (!rollout.has(ranks.first)) continue;
    held = std::max(held, ranks.held_bytes());
    peak = std::max(peak, held);
    // The cache is in the way of every phase, or of generation alone.
    for (const RankMemory::Part& phase : ranks.phases)
      if (!limits.free_cache_engine || phase.name == "gen")
        peak = std::max(peak, ranks.held_bytes() + phase.bytes);
  }
  outcome.kv_most = std::max<int64_t>(0, (outcome.device_bytes - peak) / token);
  if (limits.kv_cache_tokens > 0) {
    outcome.kv_tokens = limits.kv_cache_tokens;
  } else if (limits.kv_cache_memory_gb > 0) {
    outcome.kv_tokens = static_cast<int64_t>(limits.kv_cache_memory_gb * kGiB) / token;
  } else {
    const double share = limits.gpu_memory_utilization * static_cast<double>(outcome.device_bytes);
    outcome.kv_tokens = std::clamp<int64_t>(
        static_cast<int64_t>((share - static_cast<double>(held)) / static_cast<double>(token)), 0,
        outcome.kv_wanted);
  }
  // Where the cache cannot hold a sequence, times are those of one that has all the room there is.
  const int64_t usable = outcome.kv_tokens < limits.max_model_len ? outcome.kv_most : outcome.kv_tokens;
  outcome.decode_slots =
      std::min(static_cast<double>(limits.max_num_seqs),
               static_cast<double>(usable) /
                   (job.work.prompt_tokens + 0.5 * (job.work.response_tokens + job.work.response_limit)));
  for (RankMemory& ranks : outcome.memory) {
    if (!rollout.has(ranks.first)) continue;
    if (!limits.free_cache_engine) {
      ranks.held.push_back({"KV cache", outcome.kv_tokens * token});
      continue;
    }
    for (RankMemory::Part& phase : ranks.phases)
      if (phase.name == "gen") phase.bytes += outcome.kv_tokens * token;
  }
}

void judge(const Job& job, Outcome& outcome) {
  outcome.fits = true;
  const auto refuse = [&](std::string why) {
    outcome.fits = false;
    if (outcome.why_not.empty()) outcome.why_not = std::move(why);
  };
  for (const RankMemory& ranks : outcome.memory)
    if (ranks.peak_bytes() > outcome.device_bytes) {
      const auto* worst = ranks.worst_phase();
      refuse(fmt::format("ranks {} to {} need {:.1f} GiB in {}, a device has {:.1f}", ranks.first,
                         ranks.end - 1, static_cast<double>(ranks.peak_bytes()) / kGiB,
                         worst ? worst->name : "all", static_cast<double>(outcome.device_bytes) / kGiB));
    }
  if (job.role(PlannedRole::rollout).present && outcome.kv_tokens < job.limits.max_model_len)
    refuse(fmt::format("the KV cache has room for {} tokens, one sequence may need {}", outcome.kv_tokens,
                       job.limits.max_model_len));
}

void add_idle(const Job& job, Outcome& outcome) {
  const auto ranks = static_cast<double>(job.ranks());
  const double all = ranks * outcome.time.seconds;
  double communication = 0, bubble = 0, uneven = 0, tail = 0, overhead = 0;
  for (const StageTime& stage : outcome.time.stages) {
    const PlannedRole who = stage.name == "gen"                                       ? PlannedRole::rollout
                            : stage.name == "ref"                                     ? PlannedRole::reference
                            : stage.name == "reward_model"                            ? PlannedRole::reward_model
                            : stage.name == "values" || stage.name == "update_critic" ? PlannedRole::critic
                                                                                      : PlannedRole::actor;
    const double share = static_cast<double>(job.role(who).layout.ranks()) / all;
    communication += stage.communication * share;
    bubble += stage.bubble * share;
    uneven += stage.uneven * share;
    tail += stage.tail * share;
    overhead += stage.overhead * share;
  }
  outcome.idle = {{"short batches at the end of generation", tail},
                  {"kernels' starts, scheduling, the optimizer", overhead},
                  {"messages that nothing hides", communication},
                  {"pipeline bubbles", bubble},
                  {"ranks with fewer rows", uneven},
                  {"ranks without a stage of theirs", outcome.time.waiting / all}};
  std::erase_if(outcome.idle, [](const auto& idle) { return idle.share < 5e-4; });
  std::ranges::stable_sort(outcome.idle, std::greater<>(), &Outcome::Idle::share);
}

}  // namespace

int64_t RankMemory::held_bytes() const {
  int64_t sum = 0;
  for (const Part& part : held) sum += part.bytes;
  return sum;
}

const RankMemory::Part* RankMemory::worst_phase() const {
  const auto worst = std::ranges::max_element(phases, {}, &Part::bytes);
  return worst == phases.end() ? nullptr : &*worst;
}

int64_t RankMemory::peak_bytes() const {
  const Part* worst = worst_phase();
  return held_bytes() + (worst ? worst->bytes : 0);
}

int64_t reserved_bytes(const Job& job) {
  if (job.machine.device.is_cpu) return 350 << 20;
  return static_cast<int64_t>(1.5 * kGiB + 0.03 * job.machine.device.memory_bytes);
}

Outcome outcome_of(const Job& job) {
  Outcome outcome;
  outcome.device_bytes = static_cast<int64_t>(job.machine.device.memory_bytes);
  outcome.memory = kinds_of_ranks(job);
  for (RankMemory& ranks : outcome.memory) add_roles(job, ranks);
  size_cache(job, outcome);
  judge(job, outcome);
  outcome.time = step_time(job, std::max(1.0, outcome.decode_slots));
  outcome.tokens_per_second =
      job.work.sequences() * (job.work.prompt_tokens + job.work.response_tokens) / outcome.time.seconds;
  outcome.device_hours = outcome.time.seconds * static_cast<double>(job.ranks()) / 3600;
  add_idle(job, outcome);
  return outcome;
}

int64_t largest_micro_tokens(Job job, int64_t most) {
  const auto fits = [&](int64_t tokens) {
    job.role(PlannedRole::actor).layout.micro_tokens = tokens;
    return outcome_of(job).fits;
  };
  if (!fits(64)) return 0;
  int64_t low = 64, high = most;
  if (fits(high)) return high;
  while (high - low > std::max<int64_t>(16, low / 64)) {
    const int64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

}  // namespace trireme::costs
