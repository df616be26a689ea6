#include "launcher/commands/host_call.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "launcher/process/child.h"
#include "launcher/process/rank_settings.h"
#include "runtime/base/error.h"

namespace trireme::commands {

using namespace std::chrono_literals;
using process::Clock;

HostCall::HostCall(std::vector<std::string> names, const backends::Backend& backend,
                   const std::vector<std::string>& program, const std::vector<std::string>& exported,
                   Hear hear)
    : names_(std::move(names)),
      backend_(backend),
      hear_(std::move(hear)),
      own_names_(names_.size()),
      board_(process::Listener::Reach::other_hosts, secret_,
             {.report = [this](auto& peer, const plan::Report& report) { this->hear(peer, report); },
              .lost = [](int, bool) {},
              .complaint =
                  [this](int host, const std::string& why) {
                    fail(ErrorCode::io, "host {}: {}", names_[static_cast<size_t>(host)], why);
                  }}) {
  std::vector<backends::HostShare> shares;
  for (const auto& name : names_) shares.push_back({.name = name, .ranks = 1});
  auto all = exported;
  all.insert(all.end(), {"TRIREME_RUN_DIR", "TRIREME_SUPERVISOR", "TRIREME_SECRET"});
  output_ = ::memfd_create("hosts", MFD_CLOEXEC);
  child_ = process::start_child({.command = backend.command_line(shares, program, all),
                                 .environment = process::guard_environment(
                                     [&](const std::string& name) { return backend.hides(name); },
                                     {.run_dir = "", .secret = secret_, .supervisor = board_.addresses()}),
                                 .out = output_,
                                 .err = output_,
                                 .death_signal = SIGTERM});
}

HostCall::~HostCall() {
  end(0s);
  ::close(output_);
}

void HostCall::hear(process::Switchboard::Peer& peer, const plan::Report& report) {
  if (const auto* hello = std::get_if<plan::Hello>(&report)) {
    if (hello->rank < 0 || hello->rank >= static_cast<int>(names_.size()))
      fail(ErrorCode::corrupt_data, "a stranger connected");
    peer.rank = hello->rank;
    own_names_[static_cast<size_t>(peer.rank)] = hello->host;
  } else {
    hear_(peer.rank, own_names_[static_cast<size_t>(peer.rank)], report);
  }
}

bool HostCall::has_ended() {
  if (child_ > 0 && ::waitpid(child_, nullptr, WNOHANG) == child_) child_ = -1;
  return child_ < 0;
}

bool HostCall::listen_until(const std::function<bool()>& enough, Clock::duration limit) {
  auto last_word = Clock::now() + limit;
  bool ended = false;
  while (!enough() && Clock::now() < last_word) {
    std::vector<pollfd> watched;
    board_.add_to(watched);
    ::poll(watched.data(), watched.size(), 50);
    board_.serve(watched, 0);
    if (!ended && has_ended()) {
      ended = true;
      last_word = std::min(last_word, Clock::now() + 500ms);  // what is on its way still counts
    }
  }
  return enough();
}

void HostCall::end(Clock::duration patience) {
  const auto limit = Clock::now() + patience;
  while (!has_ended() && Clock::now() < limit) ::usleep(2000);
  if (has_ended()) return;
  ::kill(-child_, SIGTERM);
  for (const auto last = Clock::now() + 1s; !has_ended() && Clock::now() < last;) ::usleep(2000);
  if (has_ended()) return;
  ::kill(-child_, SIGKILL);
  ::waitpid(std::exchange(child_, -1), nullptr, 0);
}

void HostCall::fail_with_silence(const std::vector<bool>& answered) const {
  std::string said(static_cast<size_t>(::lseek(output_, 0, SEEK_END)), '\0');
  const ssize_t size = ::pread(output_, said.data(), said.size(), 0);
  said.resize(size > 0 ? static_cast<size_t>(size) : 0);
  std::string silent, quoted;
  for (size_t i = 0; i < names_.size(); ++i)
    if (!answered[i]) silent += (silent.empty() ? "" : ", ") + names_[i];
  for (size_t begin = 0; begin < said.size();) {
    const size_t end = std::min(said.find('\n', begin), said.size());
    const auto line = said.substr(begin, end - begin);
    if (!backend_.is_noise(line)) quoted += "\n  | " + line;
    begin = end + 1;
  }
  fail(ErrorCode::io, "no answer from {}. Does `ssh {} true` work without a password, and is {} there?{}",
       silent, names_.front(), "the same program in the same place",
       quoted.empty() ? "" : fmt::format("\n  what {} said:{}", backend_.name(), quoted));
}

}  // namespace trireme::commands
