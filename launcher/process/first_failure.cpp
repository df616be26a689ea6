#include "launcher/process/first_failure.h"

#include <csignal>
#include <tuple>

#include "launcher/process/child.h"

namespace trireme::process {
namespace {

bool is_good(const plan::Exit& exit) {
  return !exit.signaled && (exit.status == 0 || exit.status == static_cast<int>(ExitStatus::checkpointed));
}

std::optional<Failure> failure_of(int rank, const RankRecord& record, bool asked_to_stop) {
  const auto& exit = record.exit;
  const auto& page = exit ? exit->page : record.page;
  if (exit && is_good(*exit)) return std::nullopt;
  if (page.has_error) {
    // A status of its own says more than the class of the error.
    const bool own = exit && !exit->signaled && exit->status != 0 && !exit->ended_by_guard;
    return Failure{rank, own ? exit->status : static_cast<int>(exit_status_of(page.error_code)), page.error,
                   true};
  }
  if (record.lost_ns) {
    return Failure{rank, static_cast<int>(ExitStatus::timed_out),
                   "was lost: its guard went away or fell silent", false};
  }
  if (!exit || exit->ended_by_guard) return std::nullopt;
  // A rank that cannot write a checkpoint yet just ends, as programs do on SIGTERM.
  if (asked_to_stop && (!exit->signaled || exit->status == SIGTERM || exit->status == SIGINT))
    return std::nullopt;
  if (exit->signaled)
    return Failure{rank, static_cast<int>(ExitStatus::rank_killed),
                   fmt::format("was killed by {}", signal_name(exit->status)), false};
  return Failure{rank, exit->status, fmt::format("ended with status {}", exit->status), false};
}

}  // namespace

std::optional<Failure> first_failure(const std::vector<RankRecord>& ranks, bool asked_to_stop) {
  std::optional<Failure> first;
  std::tuple<bool, int64_t> first_key;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const RankRecord& record = ranks[i];
    const auto failure = failure_of(static_cast<int>(i), record, asked_to_stop);
    if (!failure) continue;
    const auto& page = record.exit ? record.exit->page : record.page;
    const bool is_victim = page.has_error && page.error_code == ErrorCode::peer_failed;
    const int64_t at = page.has_error ? page.error_ns : record.exit ? record.exit->at_ns : *record.lost_ns;
    const std::tuple key{is_victim, at};
    if (!first || key < first_key) {
      first = failure;
      first_key = key;
    }
  }
  return first;
}

}  // namespace trireme::process
