// Which rank failed first, and why: the one that the user must hear about. The others are its victims.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/plan/rank_report.h"

namespace trireme::process {

/// What the supervisor knows of one rank. Times are of the rank's own host until clock_offset_ns is added,
/// but for lost_ns and judged_ns, which are the supervisor's.
struct RankRecord {
  std::string host;
  plan::RankPage::Snapshot page;   // the last that was reported
  std::optional<plan::Exit> exit;  // if it was reported
  std::optional<int64_t> lost_ns;  // when its guard fell silent or went away without a report
  bool fell_silent = false;
  bool went_with_others = false;  // its guard went away without a report when all were being ended
  int64_t clock_offset_ns = 0;
  std::string judged;  // what the supervisor found wrong with it while it lived: it was stopped, or stalls
  int64_t judged_ns = 0;
  std::string stuck;              // not empty: SIGKILL does not end it
  std::vector<std::string> nccl;  // what NCCL said when the rank was judged

  /// Its page when it ended, else the last that was reported.
  const plan::RankPage::Snapshot& last_page() const { return exit ? exit->page : page; }
};

struct Failure {
  int rank = 0;
  int status = 1;    // of the whole job
  std::string what;  // "was killed by SIGKILL", "ended with status 3", or the error that the rank recorded
  bool explained = false;  // the rank itself said what went wrong
};

/// The earliest cause. What happens to a rank because of another comes only where there is no cause: its
/// communication fails, a peer told it of an error, it was ordered to end. `asked_to_stop`: ranks that end
/// without an error of their own are no failures then.
std::optional<Failure> first_failure(const std::vector<RankRecord>& ranks, bool asked_to_stop);

/// Whether the rank ended because another one failed, as far as its own words tell.
bool is_victim(const plan::RankPage::Snapshot& page);

/// Hosts of which nothing is left that answers, or where a process cannot be ended.
std::vector<std::string> lost_hosts(const std::vector<RankRecord>& ranks);

}  // namespace trireme::process
