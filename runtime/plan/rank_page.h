// One page of shared memory a rank: written by the rank, read by its guard, and still readable when the
// rank is dead. It says what the rank does (phase, step, stage), which collective each of its
// communicators is in, and why it failed. Fixed layout; a write is some tens of nanoseconds.
// Threads: any thread of the rank may write, any process may read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/error.h"

namespace trireme::plan {

class RankPage {
 public:
  static constexpr int kCommunicators = 48;  // slots; communicators beyond are not recorded

  /// A page in a file, replaced if it exists. Throws io.
  static RankPage create(const std::string& path);
  /// A page without a file, which child processes inherit. Throws io.
  static RankPage create_inherited();
  /// What create or create_inherited made; "" is private memory, for a rank started by hand.
  /// Throws io, and corrupt_data if it is no page of this version.
  static RankPage open(const std::string& path);

  RankPage(RankPage&& other) noexcept;
  RankPage& operator=(RankPage&& other) noexcept;
  RankPage(const RankPage&) = delete;
  RankPage& operator=(const RankPage&) = delete;
  ~RankPage();

  /// What to give to open(), in this process or in a child.
  const std::string& path() const { return path_; }

  /// A new phase ("sft", "grpo", "eval", ...) of `total_steps` steps, of which none is done; 0: unknown.
  void set_phase(const std::string& phase, int64_t total_steps);
  /// `step` steps of this phase are done.
  void set_step(int64_t step);
  void set_stage(const std::string& stage);
  /// One more piece of the stage's work is done: a sign of life within stages that take long.
  void tick();
  /// The first error wins. A text that does not fit is cut.
  void set_error(ErrorCode code, const std::string& message);

  /// The communicator's slot, the same for the same name; -1 if all are taken, which the two calls below
  /// accept.
  int communicator_slot(const std::string& name);
  /// The next collective of this communicator has begun; its sequence number is one more than the last one's.
  void begin_collective(int slot, const std::string& op, const std::string& dtype, int64_t count);
  void end_collective(int slot);

  struct Collective {
    std::string communicator, op, dtype;
    int64_t seq = 0;    // of the last collective begun, from 1
    int64_t count = 0;  // elements
    bool running = false;
    int64_t began_ns = 0, ended_ns = 0;  // steady clock; ended_ns is the one before while running
  };
  struct Snapshot {
    std::string phase, stage;
    int64_t step = 0, total_steps = 0;
    int64_t phase_began_ns = 0;  // all times: steady clock of this host (CLOCK_MONOTONIC)
    int64_t changed_ns = 0;      // of the last set_phase, set_step or set_stage
    int64_t ticks = 0;           // since the rank's start
    bool has_error = false;
    ErrorCode error_code = ErrorCode::internal;
    std::string error;
    int64_t error_ns = 0;
    std::vector<Collective> collectives;  // in the order in which the communicators were opened
  };
  /// Never blocks: what a rank was writing when it died is read as it stands.
  Snapshot read() const;

 private:
  struct Layout;
  RankPage(std::string path, int fd, Layout* page);
  static RankPage map(const std::string& path, int fd, bool fresh);

  std::string path_;
  int fd_ = -1;  // kept open by create_inherited only
  Layout* page_ = nullptr;
};

}  // namespace trireme::plan
