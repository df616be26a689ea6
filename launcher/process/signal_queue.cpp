#include "launcher/process/signal_queue.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "runtime/base/error.h"

namespace trireme::process {

SignalQueue::SignalQueue(std::initializer_list<int> signals) {
  std::signal(SIGPIPE, SIG_IGN);
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) {
    struct sigaction action {};
    ::sigaction(signal, nullptr, &action);
    // Blocked signals arrive even if they are ignored, as SIGHUP is under nohup: leave those alone.
    if (action.sa_handler == SIG_IGN && signal != SIGCHLD) continue;
    std::signal(signal, SIG_DFL);
    sigaddset(&set, signal);
  }
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  fd_ = ::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  if (fd_ < 0) fail(ErrorCode::io, "cannot watch for signals: {}", std::strerror(errno));
}

SignalQueue::~SignalQueue() {
  ::close(fd_);
}

std::optional<int> SignalQueue::next() {
  signalfd_siginfo info{};
  if (::read(fd_, &info, sizeof(info)) != sizeof(info)) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

}  // namespace trireme::process
