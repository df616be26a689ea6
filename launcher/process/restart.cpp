#include "launcher/process/restart.h"

#include <algorithm>

#include "runtime/base/error.h"

namespace trireme::process {

using namespace std::chrono_literals;

RestartPolicy::Decision RestartPolicy::decide(const Outcome& outcome) {
  const bool ended_well = !outcome.failure && !outcome.may_pass;
  if (ended_well || outcome.asked_to_stop || max_restarts_ == 0) return {};
  if (!outcome.may_pass) return {.why = "not started again: this would happen every time"};
  const int rank = outcome.failure ? outcome.failure->rank : -1;
  const bool same_place = !outcome.place.empty() && outcome.place == last_place_;
  if (same_place && rank == last_rank_)
    return {.why = fmt::format("not started again: rank {} failed at {} twice", rank, outcome.place)};
  if (restarts_ >= max_restarts_)
    return {.why = fmt::format("not started again: this was restart {} of {} (--max-restarts)", restarts_,
                               max_restarts_)};
  failures_in_place_ = same_place ? failures_in_place_ + 1 : 0;
  last_rank_ = rank;
  last_place_ = outcome.place;
  ++restarts_;
  const auto wait = std::min<std::chrono::seconds>(60s, 1s * (1 << std::min(failures_in_place_, 6)));
  return {.again = true,
          .wait = wait,
          .why = fmt::format("starting again from the last checkpoint in {} s (restart {} of {})",
                             wait.count(), restarts_, max_restarts_)};
}

}  // namespace trireme::process
