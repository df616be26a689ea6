// One process that judges: JSON lines in on its standard input, JSON lines out on its standard output, and
// what it prints on standard error is shown, up to a limit. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::rewards {

struct ProcessOptions {
  std::vector<std::string> command;      // found on PATH if it has no slash
  std::vector<std::string> environment;  // NAME=value, beside this process's own (but for what MPI set)
  int64_t memory_limit_mb = 0;           // data that it may allocate; 0: no limit
};

class ScorerProcess {
 public:
  /// Starts it, in a process group of its own. Throws io with the system's reason.
  ScorerProcess(const ProcessOptions& options, std::string name);
  ~ScorerProcess();
  ScorerProcess(const ScorerProcess&) = delete;
  ScorerProcess& operator=(const ScorerProcess&) = delete;

  // Descriptors to wait on; -1 once closed.
  int input() const { return input_; }
  int output() const { return output_; }
  int errors() const { return errors_; }

  /// Queues a line; flush() sends as much as the process takes now.
  void write(std::string_view line);
  void flush();
  bool has_unsent() const { return sent_ < unsent_.size(); }

  /// The whole lines that it has answered since the last call.
  std::vector<std::string> read_answers();
  /// Takes what it has printed: logged line by line, until it is too much.
  void read_errors();
  /// The end of what it printed, for a message; empty if nothing.
  std::string last_words() const;

  /// Whether it has ended, by itself or by kill(). Never waits.
  bool has_ended();
  /// SIGKILL for it and all that it started in its group; waits for its end, but not long.
  void kill();
  /// "ended with exit status 1", "was ended by SIGSEGV". Of a process that has_ended().
  std::string end() const;

 private:
  pid_t pid_ = -1;
  int input_ = -1, output_ = -1, errors_ = -1;
  const std::string name_;
  std::string unsent_, answers_, printed_, tail_;
  size_t sent_ = 0;
  int64_t shown_lines_ = 0;
  bool ended_ = false;
  int status_ = 0;
};

}  // namespace trireme::rewards
