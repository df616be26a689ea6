// One named, timed part of a step, at whose end its ranks agree whether an error happened.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/comm/communicator.h"

namespace trireme::pipeline {

/// Runs the stages of a step in order and keeps their times.
class StageRunner {
 public:
  /// `world` is host memory and outlives this. `observer` (may be empty) hears of each stage's begin, and of
  /// its end unless it fails: the rank's page is written there.
  using Observer = std::function<void(const std::string& stage, bool begins)>;
  explicit StageRunner(comm::Communicator& world, Observer observer = {});

  /// Runs `work` if `takes_part`, then agrees with all ranks on its outcome.
  /// Collective over: world, all ranks, same name and order.
  /// Throws: work's own error on the rank where it happened, carrying rank and host; on all others
  /// peer_failed, carrying those of the first failing rank, with its message ("rank 1 (node7) failed in
  /// stage gen: ..."). Costs one small collective. A rank that threw *inside* a collective can't
  /// reach the agreement: then the program reports and exits and the supervisor ends the attempt.
  void run(const std::string& name, bool takes_part, const std::function<void()>& work);
  void run(const std::string& name, const std::function<void()>& work) { run(name, true, work); }

  /// Seconds per stage since the last reset, in order of first use; the slowest rank's.
  /// Collective over: world; all have passed the same stages, of whatever lanes.
  std::vector<std::pair<std::string, double>> times_over_ranks();
  void reset();

 private:
  friend class Lane;
  void run_in(comm::Communicator* ranks, const std::string& name, bool takes_part,
              const std::function<void()>& work);
  void agree(comm::Communicator& ranks, const std::string& name, const std::optional<Error>& own) const;
  void add(const std::string& name, double seconds);

  comm::Communicator& world_;
  Observer observer_;
  std::vector<std::pair<std::string, double>> seconds_;
};

/// Ranks that walk some stages by themselves, while those of another lane walk theirs: they agree with one
/// another alone. A rank passes the stages of a lane that is not its own without waiting, so that all ranks
/// can walk one list of stages.
class Lane {
 public:
  /// `ranks` is host memory and outlives this; null: this rank is in another lane.
  Lane(StageRunner& stages, comm::Communicator* ranks) : stages_(stages), ranks_(ranks) {}

  bool is_mine() const { return ranks_ != nullptr; }
  /// Of a lane that is this rank's.
  comm::Communicator& ranks() const { return *ranks_; }

  /// As StageRunner::run, among the lane's ranks. After an error the other lane knows nothing of it, and may
  /// wait where the two would have met: then the program reports and exits, and the supervisor ends the
  /// attempt.
  void run(const std::string& name, bool takes_part, const std::function<void()>& work) const {
    stages_.run_in(ranks_, name, takes_part, work);
  }
  void run(const std::string& name, const std::function<void()>& work) const { run(name, true, work); }

 private:
  StageRunner& stages_;
  comm::Communicator* ranks_;
};

}  // namespace trireme::pipeline
