// How long the supervisor waits for what ought to happen: for all guards to report, for a rank that was
// stopped to be continued, for any progress at all.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "launcher/process/clock.h"
#include "launcher/process/first_failure.h"

namespace trireme::process {

class Patience {
 public:
  static constexpr std::chrono::seconds kStart{60};   // until all guards have reported
  static constexpr std::chrono::seconds kStopped{3};  // for somebody to continue a rank that was stopped
  static constexpr std::chrono::seconds kLonely{60};  // of ranks that go on when another has ended
  static constexpr std::chrono::seconds kShortestStall{300};  // where no limit is given ...
  static constexpr int kStallFactor = 10;  // ... or so many times the longest wait between two signs of life

  /// `stall_timeout`: 0 finds one from what was seen so far.
  Patience(size_t num_ranks, std::chrono::seconds stall_timeout, Clock::time_point now)
      : stall_timeout_(stall_timeout), started_(now), last_progress_(now), stopped_since_(num_ranks) {}

  /// A page that differs in its step, stage, ticks or collectives is progress.
  void note_page(const plan::RankPage::Snapshot& before, const plan::RankPage::Snapshot& page,
                 Clock::time_point now);
  void note_progress(Clock::time_point now);
  /// True if the rank has just been stopped.
  bool note_stop(int rank, bool stopped, Clock::time_point now);
  /// Nothing could happen meanwhile.
  void note_pause(Clock::time_point now) { last_progress_ = now; }

  struct Overdue {
    std::optional<int> rank;  // whose fault it is, as far as can be seen
    std::string what;
    bool is_stall = false;
  };
  /// What has not come in time. `num_reported`: guards that have said hello. `now_ns`: the same moment on the
  /// clock of the records.
  std::optional<Overdue> overdue(const std::vector<RankRecord>& ranks, int num_reported,
                                 Clock::time_point now, int64_t now_ns) const;
  Clock::duration stall_limit() const;

 private:
  std::chrono::seconds stall_timeout_;
  Clock::time_point started_, last_progress_;
  Clock::duration longest_wait_{};
  std::vector<std::optional<Clock::time_point>> stopped_since_;  // by rank
};

}  // namespace trireme::process
