#include "launcher/process/first_failure.h"

#include <algorithm>
#include <csignal>
#include <tuple>

#include "launcher/process/child.h"

namespace trireme::process {
namespace {

bool is_good(const plan::Exit& exit) {
  return !exit.signaled && (exit.status == 0 || exit.status == static_cast<int>(ExitStatus::checkpointed));
}

bool is_communication(ErrorCode code) {
  return code == ErrorCode::mpi || code == ErrorCode::nccl || code == ErrorCode::timeout;
}

Failure own_error(int rank, const RankRecord& record) {
  const auto& exit = record.exit;
  // A status of its own says more than the class of the error.
  const bool own = exit && !exit->signaled && exit->status != 0 && !exit->ended_by_guard;
  const auto& page = record.last_page();
  return {rank, own ? exit->status : static_cast<int>(exit_status_of(page.error_code)), page.error, true};
}

std::string how_lost(const std::vector<RankRecord>& ranks, const RankRecord& record) {
  std::string others;
  int count = 0;
  for (size_t i = 0; i < ranks.size(); ++i)
    if (ranks[i].host == record.host) {
      others += fmt::format("{}{}", count ? ", " : "", i);
      ++count;
    }
  const auto lost = lost_hosts(ranks);
  const bool whole = std::find(lost.begin(), lost.end(), record.host) != lost.end();
  const bool only_host = count == static_cast<int>(ranks.size());
  if (whole && !only_host)
    return fmt::format("was lost with its host (rank{} {}): {}", count > 1 ? "s" : "", others,
                       record.fell_silent ? "nothing is heard from it; its power, its kernel, or the network"
                                          : "all its connections ended at once");
  return record.fell_silent ? "was lost: its guard fell silent" : "was lost: its guard went away";
}

std::optional<Failure> failure_of(int rank, const std::vector<RankRecord>& ranks, bool asked_to_stop) {
  const RankRecord& record = ranks[static_cast<size_t>(rank)];
  const auto& exit = record.exit;
  constexpr int kTimedOut = static_cast<int>(ExitStatus::timed_out);
  // Also if it could then be moved to a good end, with a checkpoint.
  if (!record.judged.empty()) return Failure{rank, kTimedOut, record.judged, false};
  if (exit && is_good(*exit)) return std::nullopt;
  if (record.last_page().has_error) return own_error(rank, record);
  if (record.lost_ns) return Failure{rank, kTimedOut, how_lost(ranks, record), false};
  if (!exit || exit->ended_by_guard) return std::nullopt;
  // A rank that cannot write a checkpoint yet just ends, as programs do on SIGTERM.
  if (asked_to_stop && (!exit->signaled || exit->status == SIGTERM || exit->status == SIGINT))
    return std::nullopt;
  if (exit->signaled)
    return Failure{rank, static_cast<int>(ExitStatus::rank_killed),
                   fmt::format("was killed by {}", signal_name(exit->status)), false};
  return Failure{rank, exit->status, fmt::format("ended with status {}", exit->status), false};
}

// 0: a cause of its own. 1: communication failed, as it does when a peer or the network is gone. 2: a peer's
// failure.
int remoteness(const RankRecord& record) {
  const auto& page = record.last_page();
  if (!record.judged.empty() || !page.has_error) return 0;
  return page.error_code == ErrorCode::peer_failed ? 2 : is_communication(page.error_code) ? 1 : 0;
}

int64_t time_of(const RankRecord& record) {
  if (!record.judged.empty()) return record.judged_ns;
  const auto& page = record.last_page();
  if (page.has_error) return page.error_ns + record.clock_offset_ns;
  return record.exit ? record.exit->at_ns + record.clock_offset_ns : *record.lost_ns;
}

}  // namespace

std::optional<Failure> first_failure(const std::vector<RankRecord>& ranks, bool asked_to_stop) {
  std::optional<Failure> first;
  std::tuple<int, int64_t> first_key;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const auto failure = failure_of(static_cast<int>(i), ranks, asked_to_stop);
    if (!failure) continue;
    const std::tuple key{remoteness(ranks[i]), time_of(ranks[i])};
    if (!first || key < first_key) {
      first = failure;
      first_key = key;
    }
  }
  return first;
}

bool is_victim(const plan::RankPage::Snapshot& page) {
  return page.has_error && (page.error_code == ErrorCode::peer_failed || is_communication(page.error_code));
}

std::vector<std::string> lost_hosts(const std::vector<RankRecord>& ranks) {
  std::vector<std::string> hosts, lost;
  for (const auto& record : ranks)
    if (std::find(hosts.begin(), hosts.end(), record.host) == hosts.end()) hosts.push_back(record.host);
  for (const auto& host : hosts) {
    bool all_gone = true, any_stuck = false;
    for (const auto& record : ranks) {
      if (record.host != host) continue;
      all_gone = all_gone && record.lost_ns && !record.exit;
      any_stuck = any_stuck || !record.stuck.empty();
    }
    if (all_gone || any_stuck) lost.push_back(host);
  }
  return lost;
}

}  // namespace trireme::process
