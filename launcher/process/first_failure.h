// Which rank failed first, and why: the one that the user must hear about. The others are its victims.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/plan/rank_report.h"

namespace trireme::process {

/// What the supervisor knows of one rank.
struct RankRecord {
  std::string host;
  plan::RankPage::Snapshot page;   // the last that was reported
  std::optional<plan::Exit> exit;  // if it was reported
  std::optional<int64_t> lost_ns;  // when its guard fell silent or went away without a report
};

struct Failure {
  int rank = 0;
  int status = 1;    // of the whole job
  std::string what;  // "was killed by SIGKILL", "ended with status 3", or the error that the rank recorded
  bool explained = false;  // the rank itself said what went wrong
};

/// The earliest cause, by the ranks' own clocks; a consequence (a peer's failure, an end that was ordered)
/// only if there is no cause. `asked_to_stop`: ranks that end without an error of their own are no failures
/// then.
std::optional<Failure> first_failure(const std::vector<RankRecord>& ranks, bool asked_to_stop);

}  // namespace trireme::process
