// What an attempt's end means: its exit status, and the paragraph that tells why.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "launcher/backends/backend.h"
#include "launcher/process/first_failure.h"

namespace trireme::process {

/// How one attempt ended.
struct Outcome {
  int status = 0;                       // docs/exit-codes.md
  std::string text;                     // the paragraph that tells why; may be empty
  std::optional<Failure> failure;       // of the first rank that failed
  bool asked_to_stop = false;           // by a signal
  bool may_pass = false;                // the same might go well another time
  std::string place;                    // where the failed rank was: "grpo step 12"
  std::vector<std::string> lost_hosts;  // as the plan calls them
};

/// All that the supervisor knows at the end.
struct Ending {
  const std::vector<RankRecord>& ranks;
  int stop_signal = 0;     // the first signal that asked for a stop; 0: none
  bool killed = false;     // a second one came
  bool timed_out = false;  // the supervisor gave up, for the reason that `trouble` tells
  std::string trouble;     // what went wrong beside the ranks
  std::string run_dir, how_to_resume;
  std::string backend_log;  // and where this attempt's part of it begins
  off_t log_offset = 0;
};

Outcome outcome_of(const Ending& ending, const backends::Backend& backend);

}  // namespace trireme::process
