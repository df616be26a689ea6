// Programs that nobody has read, run so that they can harm nothing: bubblewrap gives each namespaces of its
// own, and a few megabytes of files that are gone with it. Linux only. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace trireme::sandbox {

struct Limits {
  std::chrono::milliseconds time{10000};  // from its start to its end, and as much time of a CPU
  int64_t memory_mb = 1024;               // of addresses
  int64_t files_mb = 16;                  // in /tmp, and of a file
  int64_t output_kb = 1024;               // on standard output
};

/// A Python program, and what it is run on.
struct Program {
  enum class Kind {
    input,  // it reads `input`, and what it prints is the outcome's output
    call,   // its function `function` (or that of its class Solution), with `arguments`, a JSON list: the
           // output is what it returned, as JSON
    asserts,  // it runs to its end: the output is "null"
  };
  Kind kind = Kind::input;
  std::string source;
  std::string input;
  std::string function;
  std::string arguments = "[]";
};

struct Outcome {
  enum class End {
    done,    // with status 0, within all limits
    failed,  // an exception, another status, a signal, no result
    timed_out,
    flooded,  // more output than its limit
  };
  End end = End::failed;
  std::string output;
};

class Sandbox {
 public:
  /// `python` is found on PATH if it has no slash. Throws invalid_config, with what to do, where programs
  /// cannot be run so: no bubblewrap, no Python, or a system that does not allow user namespaces; it tries.
  explicit Sandbox(const std::string& python);

  /// Runs it to its end, at the latest until the limit of time; nothing of it is left then. What it may do:
  /// compute, use threads, read the system's libraries and Python's, write in /tmp. What it may not: see
  /// other files or processes, reach a network, start processes. Throws io if the sandbox itself cannot be
  /// started.
  Outcome run(const Program& program, const Limits& limits) const;

 private:
  Outcome start(const std::string& task, const std::string& token, const Program& program,
                const Limits& limits) const;

  std::string bwrap_, python_;
  std::vector<std::string> folders_;  // that Python lives in
  bool counts_processes_ = false;     // whether a limit of processes would count this sandbox's alone
};

}  // namespace trireme::sandbox
