// One process of ours on each of some hosts, started by the job's own backend, and talked with: which also
// shows that it can be started there, and reaches us.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "launcher/backends/backend.h"
#include "launcher/process/switchboard.h"

namespace trireme::commands {

class HostCall {
 public:
  /// Of the host that is named by names[host]; it calls itself `own_name`.
  using Hear = std::function<void(int host, const std::string& own_name, const plan::Report& report)>;

  /// Starts `program`, which reports to its environment's TRIREME_SUPERVISOR and says Hello with its number.
  /// Throws io.
  HostCall(std::vector<std::string> names, const backends::Backend& backend,
           const std::vector<std::string>& program, const std::vector<std::string>& exported, Hear hear);
  /// Ends what is left.
  ~HostCall();
  HostCall(const HostCall&) = delete;
  HostCall& operator=(const HostCall&) = delete;

  /// Listens until enough() is true; false if that has not come within `limit`, or cannot come any more.
  /// Throws what `hear` throws.
  bool listen_until(const std::function<bool()>& enough, process::Clock::duration limit);
  /// `line` with its line end.
  void send(int host, const std::string& line) { board_.send_to(host, line); }
  void send_all(const std::string& line) { board_.send_all(line); }
  /// Waits for the processes to end, for `patience` at most; then they are ended.
  void end(process::Clock::duration patience);
  /// What is to be told of those that gave no answer, with what the backend said.
  [[noreturn]] void fail_with_silence(const std::vector<bool>& answered) const;

 private:
  void hear(process::Switchboard::Peer& peer, const plan::Report& report);
  bool has_ended();

  const std::vector<std::string> names_;
  const backends::Backend& backend_;
  Hear hear_;
  std::vector<std::string> own_names_;
  const std::string secret_ = process::make_secret();
  process::Switchboard board_;
  int output_ = -1;  // a file without a name: what the backend said
  pid_t child_ = -1;
};

}  // namespace trireme::commands
