// What a rank's guard and the supervisor tell each other over their TCP connection: one JSON object a
// line. Reports go up, orders go down. Both ends send something at least once a second, so silence means that
// the other end is lost.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/plan/rank_page.h"

namespace trireme::plan {

/// The first message: who reports. A connection that does not know the run's secret is closed. The answer
/// to a guard is Start.
struct Hello {
  int rank = 0;
  std::string secret;
  std::string host;
  pid_t guard_pid = 0;
  std::string boot;  // this start of that host's kernel: hosts that have the same share one clock
};
/// From a host that is only looked at (its Hello's rank is its number among those asked): what was read
/// there.
struct HostReport {
  std::string machine;                                                  // topology::SysFiles::record()
  std::map<std::string, std::pair<std::string, std::string>> settings;  // name to value and source
  int free_port = 0;
};
/// Lines that the rank wrote, without their line ends.
struct Output {
  bool is_error = false;  // standard error, else standard output
  std::vector<std::string> lines;
};
/// What the rank's page says, twice a second.
struct State {
  RankPage::Snapshot page;
  int64_t now_ns = 0;    // the guard's clock, which all times of its reports are of
  bool stopped = false;  // by SIGSTOP or its like, and not by an order
  std::string stuck;     // not empty: SIGKILL does not end it, and what its process is in
};
/// The rank is gone, and everything that it started. The last report but for goodbyes.
struct Exit {
  bool signaled = false;
  int status = 0;               // exit status, or the signal's number
  bool ended_by_guard = false;  // it had been told to end, or its guard was: a consequence, no cause
  int64_t at_ns = 0;            // steady clock
  RankPage::Snapshot page;
  int64_t now_ns = 0;                   // as in State
  std::vector<std::string> last_lines;  // of its log, where it failed
  std::vector<std::string> kernel;      // what its host's kernel wrote meanwhile of GPUs, network and memory
};
/// The answer to Order::ask.
struct Diagnosis {
  std::vector<std::string> lines;  // NCCL's own; empty where there is nobody to ask
};
/// From a host that is talked with: what it was asked for, in the words of whoever asked.
struct Note {
  std::string text;
};
using Report = std::variant<Hello, HostReport, Output, State, Exit, Diagnosis, Note>;

/// The first message down: all that a guard needs to start its rank, so that nothing is read from a file
/// system which hosts may not share.
struct Start {
  std::string plan;    // launch_plan.json
  std::string config;  // config.toml, with every key
};

enum class Order {
  beat,   // nothing to do: the supervisor is alive
  stop,   // finish the step, write a checkpoint, exit (SIGTERM to the rank)
  end,    // SIGTERM, then SIGKILL after a grace period: another rank failed
  kill,   // SIGKILL
  pause,  // SIGSTOP, until resume
  resume,
  leave,  // all ranks are gone: the guard may exit
  ask,    // NCCL what it knows of a hang
};

/// One line, with its line end. Bytes that are no UTF-8 become U+FFFD.
std::string encode(const Report& report);
std::string encode(Order order);
/// `line` without its line end. Throw corrupt_data.
Report decode_report(const std::string& line);
Order decode_order(const std::string& line);
std::string encode(const Start& start);
Start decode_start(const std::string& line);

/// Cuts what arrives on a stream into lines.
class LineCutter {
 public:
  /// Appends; calls `take(std::string line)` for every line that is complete, without its line end.
  template <typename Take>
  void feed(const char* data, size_t size, Take take) {
    size_t begin = 0;
    for (size_t i = 0; i < size; ++i) {
      if (data[i] != '\n') continue;
      pending_.append(data + begin, i - begin);
      begin = i + 1;
      take(std::exchange(pending_, {}));
    }
    pending_.append(data + begin, size - begin);
  }
  /// The line that is not complete (yet).
  const std::string& pending() const { return pending_; }
  std::string take_pending() { return std::exchange(pending_, {}); }

 private:
  std::string pending_;
};

}  // namespace trireme::plan
