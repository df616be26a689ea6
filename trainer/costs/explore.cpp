#include "trainer/costs/explore.h"

#include <algorithm>
#include <array>
#include <optional>

#include "runtime/base/error.h"
#include "trainer/costs/memory.h"

namespace trireme::costs {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;
constexpr std::array<int64_t, 7> kMicroTokens{65536, 32768, 16384, 8192, 4096, 2048, 1024};

// What one candidate is made of; the rest follows.
struct Choice {
  int64_t tp = 1, pp = 1, cp = 1, zero = 0, rollout_tp = 1, rollout_ranks = 0;  // 0: all, with the actor
  bool recompute = false;
};

class Explorer {
 public:
  Explorer(const Job& job, int64_t ranks, const SearchSpace& space)
      : base_(job), ranks_(ranks), space_(space) {}

  // With the micro-batch that takes least time of those that fit.
  std::optional<Candidate> make(const Choice& choice) {
    const bool apart = choice.rollout_ranks > 0, has_rollout = base_.role(PlannedRole::rollout).present;
    const int64_t trained = ranks_ - choice.rollout_ranks, generating = apart ? choice.rollout_ranks : ranks_;
    const int64_t replica = choice.tp * choice.pp * choice.cp;
    if (trained < 1 || trained % replica != 0 || generating % choice.rollout_tp != 0) return std::nullopt;
    if (choice.zero == 3 && choice.pp > 1) return std::nullopt;
    if (choice.zero > 0 && trained == choice.tp * choice.pp) return std::nullopt;
    if (trained / replica > static_cast<int64_t>(base_.work.sequences() / base_.work.updates))
      return std::nullopt;  // replicas without a sequence
    Candidate made{base_, {}, apart};
    Job& job = made.job;
    const Layout layout{trained / replica, choice.pp, choice.cp, choice.tp, choice.zero, choice.recompute};
    job.role(PlannedRole::actor) = {true, 0, layout};
    if (job.role(PlannedRole::critic).present) job.role(PlannedRole::critic) = {true, 0, layout};
    if (job.role(PlannedRole::reference).present)
      job.role(PlannedRole::reference) = {true, 0, {trained / replica, choice.pp, choice.cp, choice.tp}};
    if (job.role(PlannedRole::reward_model).present)
      job.role(PlannedRole::reward_model) =
          apart ? RoleJob{true, trained, {generating / choice.rollout_tp, 1, 1, choice.rollout_tp}}
                : RoleJob{true, 0, {trained / replica, choice.pp, choice.cp, choice.tp}};
    if (has_rollout)
      job.role(PlannedRole::rollout) = {
          true, apart ? trained : 0, {generating / choice.rollout_tp, 1, 1, choice.rollout_tp}};
    job.steps_ahead = apart && (space_.steps_ahead || base_.steps_ahead);
    job.stream = apart && base_.stream && !job.steps_ahead;
    std::optional<Candidate> best;
    for (const int64_t tokens : kMicroTokens) {
      for (const PlannedRole role : {PlannedRole::actor, PlannedRole::critic, PlannedRole::reference,
                                     PlannedRole::reward_model})
        job.role(role).layout.micro_tokens = tokens;
      ++tried_;
      give_the_rest_to_the_cache(made);
      const bool better = !best || (made.outcome.fits && !best->outcome.fits) ||
                          (made.outcome.fits == best->outcome.fits &&
                           made.outcome.time.seconds < best->outcome.time.seconds * (1 - 1e-6));
      if (better) best = made;
      // The state alone is too much: smaller passes do not help.
      const bool hopeless = std::ranges::any_of(made.outcome.memory, [&](const RankMemory& each) {
        return each.held_bytes() > made.outcome.device_bytes;
      });
      if (hopeless) break;
    }
    return best;
  }

  // Keys and values get what nothing else needs, as far as they have use for it.
  void give_the_rest_to_the_cache(Candidate& made) const {
    auto& limits = made.job.limits;
    limits.kv_cache_memory_gb = 0;
    limits.kv_cache_tokens = limits.page_size;
    made.outcome = outcome_of(made.job);
    const int64_t tokens = std::min(made.outcome.kv_most, made.outcome.kv_wanted);
    if (!made.job.role(PlannedRole::rollout).present || tokens < limits.max_model_len) return;
    limits.kv_cache_tokens = tokens / limits.page_size * limits.page_size;
    made.outcome = outcome_of(made.job);
  }

  std::vector<int64_t> powers(int64_t most) const {
    std::vector<int64_t> sizes;
    for (int64_t size = 1; size <= most; size *= 2) sizes.push_back(size);
    return sizes;
  }

  Search run(size_t keep) {
    Search search;
    std::vector<std::pair<Candidate, Choice>> fitting;
    const auto tp_sizes = possible_tp(base_.model, base_.machine.devices_per_node);
    const bool has_rollout = base_.role(PlannedRole::rollout).present;
    std::vector<int64_t> apart{0};
    for (const int64_t part : {1, 2, 3, 4, 5, 6, 7})
      if (has_rollout && ranks_ % 8 == 0) apart.push_back(ranks_ / 8 * part);
    for (const int64_t tp : tp_sizes)
      for (const int64_t pp : powers(std::min(space_.most_pp, base_.model.num_hidden_layers)))
        for (const int64_t cp : powers(space_.most_cp))
          for (const int64_t zero : {0, 1, 2, 3})
            for (const bool recompute : {false, true})
              for (const int64_t rollout_tp : has_rollout ? tp_sizes : std::vector<int64_t>{1})
                for (const int64_t rollout_ranks : apart) {
                  const Choice choice{tp, pp, cp, zero, rollout_tp, rollout_ranks, recompute};
                  auto made = make(choice);
                  if (!made || !made->outcome.fits) continue;
                  ++search.fitting;
                  insert(fitting, {std::move(*made), choice}, keep);
                }
    if (tried_ == 0)
      fail(ErrorCode::invalid_config,
           "no layout of {} divides {} ranks and leaves every replica a sequence; tp may be {}",
           base_.model.name, ranks_, fmt::join(tp_sizes, ", "));
    if (!fitting.empty()) search.because = explain(fitting.front().first, fitting.front().second);
    search.tried = tried_;
    for (auto& [candidate, choice] : fitting) search.best.push_back(std::move(candidate));
    return search;
  }

 private:
  static void insert(std::vector<std::pair<Candidate, Choice>>& best, std::pair<Candidate, Choice> made,
                     size_t keep) {
    const double seconds = made.first.outcome.time.seconds;
    const auto place = std::ranges::upper_bound(
        best, seconds, {}, [](const auto& each) { return each.first.outcome.time.seconds; });
    if (static_cast<size_t>(place - best.begin()) >= keep) return;
    best.insert(place, std::move(made));
    if (best.size() > keep) best.pop_back();
  }

  // What becomes of the best choice if one thing of it is chosen otherwise.
  std::string otherwise(const Candidate& best, const Choice& choice) {
    const auto made = make(choice);
    if (!made) return "leaves no whole replicas";
    if (!made->outcome.fits) return "does not fit: " + made->outcome.why_not;
    const double ratio = made->outcome.time.seconds / best.outcome.time.seconds - 1;
    return ratio < 0.001 ? "takes as long" : fmt::format("takes {:.1f} % longer", 100 * ratio);
  }

  std::vector<std::string> explain(const Candidate& best, const Choice& choice) {
    std::vector<std::string> lines;
    const Layout& actor = best.job.role(PlannedRole::actor).layout;
    const int64_t micro = actor.micro_tokens;
    const auto state =
        static_cast<double>(state_bytes(best.job.model, actor, best.job.target).total()) / kGiB;
    {
      Choice less = choice, more = choice;
      less.tp /= 2;
      more.tp *= 2;
      std::string line = fmt::format("actor tp {}: its state is {:.1f} GiB of a device's {:.1f}", choice.tp,
                                     state, static_cast<double>(best.outcome.device_bytes) / kGiB);
      if (less.tp > 0) line += fmt::format("; tp {} {}", less.tp, otherwise(best, less));
      if (more.tp <= base_.machine.devices_per_node)
        line += fmt::format("; tp {} {}", more.tp, otherwise(best, more));
      lines.push_back(line);
    }
    if (actor.shards() > 1) {
      std::string line = fmt::format("ZeRO {}", choice.zero);
      for (const int64_t zero : {choice.zero - 1, choice.zero + 1}) {
        Choice other = choice;
        other.zero = zero;
        if (zero >= 0 && zero <= 3) line += fmt::format("; stage {} {}", zero, otherwise(best, other));
      }
      lines.push_back(line);
    }
    {
      Choice other = choice;
      other.recompute = !choice.recompute;
      lines.push_back(fmt::format("{} with micro-batches of {} tokens; {} {}",
                                  choice.recompute ? "activations computed again" : "activations kept", micro,
                                  other.recompute ? "computing them again" : "keeping them",
                                  otherwise(best, other)));
    }
    if (base_.role(PlannedRole::rollout).present) {
      Choice less = choice, more = choice, moved = choice;
      less.rollout_tp /= 2;
      more.rollout_tp *= 2;
      std::string line = fmt::format(
          "rollout tp {}: {:.0f} sequences at a time on a replica, {:.0f} % of the step", choice.rollout_tp,
          best.outcome.decode_slots, 100 * best.outcome.time.stage("gen") / best.outcome.time.seconds);
      if (less.rollout_tp > 0) line += fmt::format("; tp {} {}", less.rollout_tp, otherwise(best, less));
      if (more.rollout_tp <= base_.machine.devices_per_node)
        line += fmt::format("; tp {} {}", more.rollout_tp, otherwise(best, more));
      lines.push_back(line);
      moved.rollout_ranks = choice.rollout_ranks > 0 ? 0 : ranks_ / 2;
      lines.push_back(fmt::format(
          "rollout {}; {} {}", choice.rollout_ranks > 0 ? "on ranks of its own" : "on the actor's ranks",
          moved.rollout_ranks > 0 ? "on half of the ranks by itself it" : "on the actor's ranks it",
          otherwise(best, moved)));
    }
    return lines;
  }

  const Job base_;
  const int64_t ranks_;
  const SearchSpace space_;
  int64_t tried_ = 0;
};

}  // namespace

std::string Candidate::text() const {
  const RoleJob& rollout = job.role(PlannedRole::rollout);
  std::string line = "actor " + job.role(PlannedRole::actor).layout.text();
  line += fmt::format(", {} tokens", job.role(PlannedRole::actor).layout.micro_tokens);
  if (rollout.present)
    line += fmt::format("; rollout {}{}", rollout.layout.text(),
                        apart ? fmt::format(" on {} ranks of its own", rollout.layout.ranks()) : "");
  return line;
}

Search explore(const Job& job, int64_t ranks, const SearchSpace& space, size_t keep) {
  if (ranks < 1 || ranks > job.machine.devices())
    fail(ErrorCode::invalid_config, "{} ranks, but the machine ({}) has {} devices", ranks,
         job.machine.text(), job.machine.devices());
  return Explorer(job, ranks, space).run(keep);
}

}  // namespace trireme::costs
