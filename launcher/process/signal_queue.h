// Signals as something to poll, so that they are handled between two turns of a loop and never inside one.
#pragma once

#include <csignal>
#include <initializer_list>
#include <optional>

namespace trireme::process {

/// Blocks the signals in this thread and in those that it starts, but for those that our parent made us
/// ignore (nohup); ignores SIGPIPE. One per process.
class SignalQueue {
 public:
  explicit SignalQueue(std::initializer_list<int> signals);
  ~SignalQueue();
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;

  int fd() const { return fd_; }
  /// The next signal that has arrived; never waits.
  std::optional<int> next();

 private:
  int fd_;
};

}  // namespace trireme::process
