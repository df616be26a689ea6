#include "trainer/sandbox/sandbox.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <utility>

#include "runtime/base/error.h"
#include "trainer/sandbox/harness.h"
#include "trainer/sandbox/system_calls.h"

namespace trireme::sandbox {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kMaxTasks = 64;          // processes and threads, where they can be counted
constexpr int kTaskDescriptor = 3;     // harness.py reads its task from it
constexpr int kFirstDescriptor = 10;   // of those that bwrap reads
constexpr int64_t kDiscMargin_mb = 1;  // so that a file meets its own limit before the disc's

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return number_; }
  void close() { ::close(std::exchange(number_, -1)); }

 private:
  int number_;
};

// A file without a name that holds `text`, to be read from its beginning.
int file_of(const std::string& text) {
  const int file = ::memfd_create("trireme", MFD_CLOEXEC);
  if (file < 0) fail(ErrorCode::io, "sandbox: memfd_create: {}", std::strerror(errno));
  for (size_t at = 0; at < text.size();) {
    const ssize_t count = ::write(file, text.data() + at, text.size() - at);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      ::close(file);
      fail(ErrorCode::io, "sandbox: the input of a program cannot be written: {}", std::strerror(errno));
    }
    at += static_cast<size_t>(count);
  }
  ::lseek(file, 0, SEEK_SET);
  return file;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

void add_words(std::vector<std::string>& command, const std::string& words) {
  std::istringstream in(words);
  for (std::string word; in >> word;) command.push_back(word);
}

std::string find_on_path(const std::string& name) {
  if (name.find('/') != std::string::npos) return ::access(name.c_str(), X_OK) == 0 ? name : "";
  const char* path = std::getenv("PATH");
  const std::string folders = path ? path : "/usr/local/bin:/usr/bin:/bin";
  for (size_t begin = 0; begin <= folders.size();) {
    const size_t end = std::min(folders.find(':', begin), folders.size());
    const std::string file = folders.substr(begin, end - begin) + "/" + name;
    if (::access(file.c_str(), X_OK) == 0) return file;
    begin = end + 1;
  }
  return "";
}

// Its real program, and where its libraries are.
std::vector<std::string> ask_python(const std::string& python) {
  std::string quoted;
  for (const char c : python) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  const std::string command = "'" + quoted +
                              "' -I -S -c 'import sys, os; print(os.path.realpath(sys.executable)); "
                              "print(sys.base_prefix); print(sys.prefix)' 2>/dev/null";
  FILE* pipe = ::popen(command.c_str(), "re");
  std::vector<std::string> lines;
  std::array<char, 4096> line{};
  while (pipe && std::fgets(line.data(), line.size(), pipe)) {
    lines.emplace_back(line.data());
    while (!lines.back().empty() && lines.back().back() == '\n') lines.back().pop_back();
  }
  if (pipe) ::pclose(pipe);
  return lines;
}

// From Linux 5.14 on, a limit of processes counts those of a user namespace, not all of the user's.
bool counts_by_namespace() {
  utsname system{};
  int major = 0, minor = 0;
  if (::uname(&system) != 0 || std::sscanf(system.release, "%d.%d", &major, &minor) != 2) return false;
  return major > 5 || (major == 5 && minor >= 14);
}

std::string new_token() {
  static std::atomic<uint64_t> count{std::random_device{}()};
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:016x}:", random(), random(), count.fetch_add(1));
}

int64_t milliseconds_left(Clock::time_point deadline) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
}

}  // namespace

Sandbox::Sandbox(const std::string& python)
    : bwrap_(find_on_path("bwrap")), counts_processes_(counts_by_namespace()) {
  if (bwrap_.empty())
    fail(ErrorCode::invalid_config,
         "programs are judged in a sandbox made by bubblewrap, and there is no bwrap on PATH: install it "
         "(Debian, "
         "Ubuntu: apt-get install bubblewrap)");
  if (system_call_filter().empty())
    fail(ErrorCode::invalid_config, "programs can be judged in a sandbox on x86-64 and ARM64 machines only");
  const auto answers = ask_python(python);
  if (answers.size() != 3)
    fail(ErrorCode::invalid_config, "'{}' is no Python that runs (reward.code.python)", python);
  python_ = answers[0];
  for (const std::string& folder : {answers[1], answers[2]})
    if (!folder.starts_with("/usr") && folder != "/" && !folder.empty() &&
        std::ranges::find(folders_, folder) == folders_.end())
      folders_.push_back(folder);
  Program program;
  program.source = "print(input())";
  program.input = "ready\n";
  const Outcome outcome = run(program, Limits{});
  if (outcome.end != Outcome::End::done || outcome.output != "ready\n")
    fail(ErrorCode::invalid_config,
         "programs cannot be judged on this machine: bubblewrap is there but cannot make a sandbox, most "
         "likely "
         "because user namespaces are not allowed. Let the administrator set user.max_user_namespaces above "
         "0, and "
         "kernel.unprivileged_userns_clone = 1 and kernel.apparmor_restrict_unprivileged_userns = 0 where "
         "they "
         "exist; in a container, allow it to make namespaces. To see the reason: {} --unshare-all --ro-bind "
         "/ / true",
         bwrap_);
}

Outcome Sandbox::run(const Program& program, const Limits& limits) const {
  nlohmann::json task;
  static constexpr const char* kKinds[] = {"input", "call", "assert"};
  task["kind"] = kKinds[static_cast<size_t>(program.kind)];
  task["source"] = program.source;
  task["memory_mb"] = limits.memory_mb;
  task["files_mb"] = limits.files_mb;
  task["cpu_s"] = (limits.time.count() + 1999) / 1000;
  task["processes"] = counts_processes_ ? kMaxTasks : 0;
  std::string token;
  if (program.kind != Program::Kind::input) {
    task["token"] = token = new_token();
    task["function"] = program.function;
    task["arguments"] = nlohmann::json::parse(program.arguments, nullptr, false);
    if (!task["arguments"].is_array()) return {};
  }
  return start(task.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), token, program, limits);
}

Outcome Sandbox::start(const std::string& task, const std::string& token, const Program& program,
                       const Limits& limits) const {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail(ErrorCode::io, "sandbox: pipe: {}", std::strerror(errno));
  Descriptor output(ends[0]), write_end(ends[1]);
  const Descriptor input(file_of(program.input)), task_file(file_of(task)), harness(file_of(kHarness)),
      filter(file_of(system_call_filter()));
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  // First out of the way of the numbers that they are to have.
  const std::array<std::pair<int, int>, 4> moves = {{{input.get(), STDIN_FILENO},
                                                     {write_end.get(), STDOUT_FILENO},
                                                     {harness.get(), kFirstDescriptor},
                                                     {filter.get(), kFirstDescriptor + 1}}};
  std::vector<int> apart;
  for (const auto& [from, to] : moves) apart.push_back(::fcntl(from, F_DUPFD_CLOEXEC, 100));
  apart.push_back(::fcntl(task_file.get(), F_DUPFD_CLOEXEC, 100));
  for (size_t i = 0; i < moves.size(); ++i)
    ::posix_spawn_file_actions_adddup2(&files, apart[i], moves[i].second);
  ::posix_spawn_file_actions_adddup2(&files, apart.back(), kTaskDescriptor);
  ::posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);

  // No /proc: where a run is root's, its files would obey the program.
  std::vector<std::string> command = {bwrap_};
  const auto add = [&](std::initializer_list<std::string> words) { command.insert(command.end(), words); };
  add_words(command,
            "--unshare-all --unshare-user --die-with-parent --new-session --cap-drop ALL --hostname sandbox "
            "--ro-bind /usr /usr --ro-bind-try /etc/ld.so.cache /etc/ld.so.cache "
            "--ro-bind-try /etc/alternatives /etc/alternatives");
  for (const char* folder : {"bin", "lib", "lib64", "lib32"}) {
    const std::string path = std::string("/") + folder;
    std::error_code ignored;
    if (fs::is_symlink(path, ignored))
      add({"--symlink", std::string("usr/") + folder, path});
    else if (fs::is_directory(path, ignored))
      add({"--ro-bind", path, path});
  }
  for (const std::string& folder : folders_) add({"--ro-bind", folder, folder});
  add_words(
      command,
      fmt::format("--dev /dev --size 65536 --tmpfs /dev/shm --remount-ro /dev --size {} --tmpfs /tmp "
                  "--ro-bind-data {} /harness.py --remount-ro / --chdir /tmp --seccomp {} --clearenv "
                  "--setenv PATH /usr/bin:/bin --setenv HOME /tmp --setenv LANG C.UTF-8 "
                  "--setenv OMP_NUM_THREADS 1 --setenv OPENBLAS_NUM_THREADS 1 --setenv PYTHONHASHSEED 0 --",
                  (limits.files_mb + kDiscMargin_mb) << 20, kFirstDescriptor, kFirstDescriptor + 1));
  add({python_, "-I", "-S", "-B", "/harness.py"});
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
  std::vector<std::string> environment;
  pid_t child = -1;
  // Not fork(): a rank's memory may be large, and registered with a network card.
  const auto deadline = Clock::now() + limits.time;
  const int error = ::posix_spawn(&child, bwrap_.c_str(), &files, &attributes, pointers(command).data(),
                                  pointers(environment).data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&files);
  for (const int descriptor : apart) ::close(descriptor);
  if (error != 0) fail(ErrorCode::io, "sandbox: {} cannot be started: {}", bwrap_, std::strerror(error));
  write_end.close();

  Outcome outcome;
  const auto most = static_cast<size_t>(limits.output_kb) << 10;
  bool is_open = true, timed_out = false, flooded = false;
  std::array<char, 1 << 16> block;
  while (is_open && !timed_out && !flooded) {
    const int64_t left = milliseconds_left(deadline);
    pollfd waiting{output.get(), POLLIN, 0};
    const int ready = left > 0 ? ::poll(&waiting, 1, static_cast<int>(left)) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      timed_out = true;
    } else {
      const ssize_t count = ::read(output.get(), block.data(), block.size());
      if (count < 0 && errno == EINTR) continue;
      is_open = count > 0;
      if (count > 0) outcome.output.append(block.data(), static_cast<size_t>(count));
      flooded = outcome.output.size() > most;
    }
  }
  // It may close its output and go on.
  int status = 0;
  bool ended = false;
  for (auto pause = std::chrono::microseconds(200); !timed_out && !flooded && !ended;) {
    ended = ::waitpid(child, &status, WNOHANG) == child;
    if (ended) break;
    timed_out = milliseconds_left(deadline) <= 0;
    ::usleep(static_cast<useconds_t>(pause.count()));
    pause = std::min(pause * 2, std::chrono::microseconds(5000));
  }
  if (!ended) {
    // Its namespace's first process dies with bwrap, and with that all others.
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
  }
  outcome.end = timed_out                                       ? Outcome::End::timed_out
                : flooded                                       ? Outcome::End::flooded
                : WIFEXITED(status) && WEXITSTATUS(status) == 0 ? Outcome::End::done
                                                                : Outcome::End::failed;
  if (flooded) outcome.output.resize(most);
  if (!token.empty() && outcome.end == Outcome::End::done) {
    const size_t at = outcome.output.find(token);
    if (at == std::string::npos)
      outcome = {};
    else
      outcome.output.erase(0, at + token.size());
  }
  return outcome;
}

}  // namespace trireme::sandbox
