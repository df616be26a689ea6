#include "trainer/rewards/scorer_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "runtime/base/error.h"
#include "runtime/base/log.h"

namespace trireme::rewards {
namespace {

constexpr int64_t kShownLines = 100;
constexpr size_t kTail = 2000;
constexpr size_t kLongestAnswer = 16 << 20;
constexpr int kNiceness = 5;  // generation goes first

struct Pipe {
  int read_end = -1, write_end = -1;
  Pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail(ErrorCode::io, "no pipe to a scorer: {}", std::strerror(errno));
    read_end = ends[0];
    write_end = ends[1];
  }
};

void close(int& descriptor) {
  if (descriptor >= 0) ::close(descriptor);
  descriptor = -1;
}

/// This process's, without what would make a program think that it is one of the run's ranks; and with one
/// thread for each library that would otherwise take every core.
std::vector<std::string> environment_for(const std::vector<std::string>& more) {
  constexpr std::array<std::string_view, 5> ours = {"OMPI_", "PMIX_", "PMI_", "PRTE_", "TRIREME_"};
  std::vector<std::string> result(more);
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view variable(*entry);
    const auto is_set = [&](const std::string& mine) {
      return variable.starts_with(std::string_view(mine).substr(0, mine.find('=') + 1));
    };
    if (std::ranges::none_of(ours, [&](std::string_view start) { return variable.starts_with(start); }) &&
        std::ranges::none_of(more, is_set))
      result.emplace_back(variable);
  }
  for (const char* name : {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"}) {
    const std::string start = std::string(name) + "=";
    std::erase_if(result, [&](const std::string& entry) { return entry.starts_with(start); });
    result.push_back(start + "1");
  }
  return result;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

/// What is there, but no more than a mouthful: others want to be heard too. Closes the descriptor at its end.
void read_some(int& descriptor, std::string& into) {
  std::array<char, 1 << 16> block;
  for (int round = 0; round < 16 && descriptor >= 0; ++round) {
    const ssize_t count = ::read(descriptor, block.data(), block.size());
    if (count > 0) {
      into.append(block.data(), static_cast<size_t>(count));
      if (count < static_cast<ssize_t>(block.size())) return;
    } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
      close(descriptor);
    } else {
      return;
    }
  }
}

/// Takes whole lines off the front of `text`.
std::vector<std::string> take_lines(std::string& text) {
  std::vector<std::string> lines;
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
    lines.push_back(text.substr(begin, end - begin));
  text.erase(0, begin);
  return lines;
}

}  // namespace

ScorerProcess::ScorerProcess(const ProcessOptions& options, std::string name) : name_(std::move(name)) {
  Pipe in, out, err;
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_adddup2(&files, in.read_end, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&files, out.write_end, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&files, err.write_end, STDERR_FILENO);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none, all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  auto command = options.command;
  auto environment = environment_for(options.environment);
  // Not fork(): a rank's memory may be large, and registered with a network card.
  const int error = ::posix_spawnp(&pid_, command[0].c_str(), &files, &attributes, pointers(command).data(),
                                   pointers(environment).data());
  ::posix_spawn_file_actions_destroy(&files);
  ::posix_spawnattr_destroy(&attributes);
  for (int* end : {&in.read_end, &out.write_end, &err.write_end}) close(*end);
  input_ = in.write_end;
  output_ = out.read_end;
  errors_ = err.read_end;
  if (error != 0) {
    for (int* end : {&input_, &output_, &errors_}) close(*end);
    fail(ErrorCode::io, "{} cannot be started: {}", command[0], std::strerror(error));
  }
  for (const int end : {input_, output_, errors_}) ::fcntl(end, F_SETFL, ::fcntl(end, F_GETFL) | O_NONBLOCK);
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(pid_), kNiceness);
  if (options.memory_limit_mb > 0) {
    const rlimit limit{static_cast<rlim_t>(options.memory_limit_mb) << 20,
                       static_cast<rlim_t>(options.memory_limit_mb) << 20};
    ::prlimit(pid_, RLIMIT_DATA, &limit, nullptr);
  }
}

ScorerProcess::~ScorerProcess() {
  kill();
  for (int* end : {&input_, &output_, &errors_}) close(*end);
}

void ScorerProcess::write(std::string_view line) {
  unsent_.append(line);
  unsent_.push_back('\n');
}

void ScorerProcess::flush() {
  while (input_ >= 0 && has_unsent()) {
    // SIGPIPE is ignored in every program of ours: a closed pipe is an error here.
    const ssize_t count = ::write(input_, unsent_.data() + sent_, unsent_.size() - sent_);
    if (count < 0) {
      if (errno != EAGAIN && errno != EINTR) close(input_);  // it has ended, or will not read any more
      break;
    }
    sent_ += static_cast<size_t>(count);
  }
  if (!has_unsent()) {
    unsent_.clear();
    sent_ = 0;
  }
}

std::vector<std::string> ScorerProcess::read_answers() {
  read_some(output_, answers_);
  auto lines = take_lines(answers_);
  if (answers_.size() > kLongestAnswer) {
    tail_ = "an answer without end: " + answers_.substr(0, 200);
    kill();
  }
  return lines;
}

void ScorerProcess::read_errors() {
  read_some(errors_, printed_);
  constexpr size_t kLongest = 4096;
  if (printed_.size() > kLongest && printed_.find('\n') == std::string::npos) printed_.push_back('\n');
  for (std::string& line : take_lines(printed_)) {
    tail_ += line + "\n";
    if (tail_.size() > kTail) tail_.erase(0, tail_.size() - kTail);
    if (line.size() > 500) line = line.substr(0, 500) + "...";
    if (shown_lines_ < kShownLines) log::info("{} prints: {}", name_, line);
    if (++shown_lines_ == kShownLines) log::info("{} prints more, which is not shown", name_);
  }
}

std::string ScorerProcess::last_words() const {
  std::string words = tail_ + printed_;
  while (!words.empty() && words.back() == '\n') words.pop_back();
  return words;
}

bool ScorerProcess::has_ended() {
  if (!ended_ && pid_ > 0) ended_ = ::waitpid(pid_, &status_, WNOHANG) == pid_;
  return ended_;
}

void ScorerProcess::kill() {
  ::kill(-pid_, SIGKILL);  // also what it left behind
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (!has_ended() && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

std::string ScorerProcess::end() const {
  if (WIFEXITED(status_)) return fmt::format("ended with exit status {}", WEXITSTATUS(status_));
  const char* name = ::sigabbrev_np(WTERMSIG(status_));
  return fmt::format("was ended by SIG{}{}", name ? name : std::to_string(WTERMSIG(status_)),
                     WTERMSIG(status_) == SIGKILL ? " (perhaps the machine was out of memory)" : "");
}

}  // namespace trireme::rewards
