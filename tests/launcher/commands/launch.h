// Starts the real `trireme`, with a shell script or a test program as its ranks, and sees what it does.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace trireme::commands {

inline std::string read_all(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

inline std::string from_env(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value ? value : otherwise;
}

/// build/PRESET, in which this test lies under tests/bin.
inline std::string build_folder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path().parent_path();
}
inline std::string source_folder() {
  return std::filesystem::absolute(from_env("TRIREME_SOURCE_DIR", (build_folder() + "/../..").c_str()));
}

inline bool wait_until(const std::function<bool()>& condition,
                       std::chrono::seconds limit = std::chrono::seconds(30)) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

class LaunchTest : public ::testing::Test {
 protected:
  struct Result {
    int status = -1;  // exit status, 128 + signal, or -1: it had to be killed
    std::string out, err;
  };

  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              ("trireme-launch-" + std::to_string(::getpid()) + "-" +
               ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override {
    if (launcher_ > 0) finish(std::chrono::seconds(0));
    EXPECT_EQ(left_running(), std::vector<std::string>{});
    std::filesystem::remove_all(folder_);
  }

  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }
  std::string script(const std::string& body) const {
    const auto path = file("rank.sh", "#!/bin/sh\n" + body);
    ::chmod(path.c_str(), 0755);
    return path;
  }
  static std::string page_rank() { return build_folder() + "/tests/bin/page_rank"; }
  std::string run_dir() const { return folder_ / "run"; }
  static std::string configuration() { return source_folder() + "/configs/quickstart.toml"; }

  /// `trireme ARGUMENTS`; on a terminal of its own if asked for, whose output is then all in Result::out.
  void start(std::vector<std::string> arguments, bool on_terminal = false,
             const std::vector<std::pair<std::string, std::string>>& environment = {}) {
    arguments.insert(arguments.begin(), build_folder() + "/bin/trireme");
    std::vector<char*> words;
    for (auto& argument : arguments) words.push_back(argument.data());
    words.push_back(nullptr);
    const auto child = [&] {
      for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
      ::chdir(folder_.c_str()) == 0 ? ::execv(words[0], words.data()) : 0;
      ::_exit(126);
    };
    if (on_terminal) {
      ::setenv("TERM", "xterm", 1);
      winsize size{.ws_row = 24, .ws_col = 100, .ws_xpixel = 0, .ws_ypixel = 0};
      launcher_ = ::forkpty(&terminal_, nullptr, nullptr, &size);
      if (launcher_ == 0) child();
      reader_ = std::thread([this, fd = terminal_] {
        std::ofstream out(folder_ / "out", std::ios::binary);
        char data[4096];
        for (ssize_t n; (n = ::read(fd, data, sizeof(data))) > 0;) out.write(data, n).flush();
      });
      return;
    }
    launcher_ = ::fork();
    if (launcher_ == 0) {
      for (const int fd : {1, 2}) {
        const auto path = folder_ / (fd == 1 ? "out" : "err");
        ::dup2(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644), fd);
      }
      child();
    }
  }
  /// `trireme run` on a small configuration, with `program` as its ranks.
  void start_run(const std::string& program, int ranks, std::vector<std::string> more = {},
                 bool on_terminal = false) {
    std::vector<std::string> arguments{
        "run",     configuration(),  "-n",   std::to_string(ranks), "--run-dir",
        run_dir(), "--rank-program", program};
    arguments.insert(arguments.end(), more.begin(), more.end());
    start(std::move(arguments), on_terminal);
  }

  Result finish(std::chrono::seconds limit = std::chrono::seconds(40)) {
    Result result;
    int status = 0;
    const bool ended = wait_until([&] { return ::waitpid(launcher_, &status, WNOHANG) == launcher_; }, limit);
    if (!ended) {
      ::kill(launcher_, SIGKILL);
      ::waitpid(launcher_, &status, 0);
    } else {
      result.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    }
    launcher_ = -1;
    if (reader_.joinable()) reader_.join();
    if (terminal_ >= 0) ::close(std::exchange(terminal_, -1));
    result.out = read_all(folder_ / "out");
    result.err = read_all(folder_ / "err");
    return result;
  }
  Result run(const std::string& program, int ranks, std::vector<std::string> more = {}) {
    start_run(program, ranks, std::move(more));
    return finish();
  }

  void send(int signal) const { ::kill(launcher_, signal); }
  bool wait_for_file(const std::string& name) const {
    return wait_until([&] { return std::filesystem::exists(folder_ / name); });
  }
  /// Waits for text in what the launcher writes.
  bool wait_for(const std::string& stream, const std::string& text) const {
    return wait_until([&] { return read_all(folder_ / stream).find(text) != std::string::npos; });
  }
  std::string log(int rank) const {
    return read_all(run_dir() + "/logs/rank-" + std::to_string(rank) + ".log");
  }

  /// Command lines of processes of this test's run: their environment names its folder. They get a moment to
  /// go.
  std::vector<std::string> left_running() const {
    std::vector<std::string> found;
    wait_until(
        [&] {
          found.clear();
          for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
            if (entry.path().filename() == "self" || !std::filesystem::exists(entry.path() / "environ"))
              continue;
            if (read_all(entry.path() / "environ").find("TRIREME_RUN_DIR=" + run_dir()) == std::string::npos)
              continue;
            auto command = read_all(entry.path() / "cmdline");
            std::replace(command.begin(), command.end(), '\0', ' ');
            if (!command.empty()) found.push_back(command);
          }
          return found.empty();
        },
        std::chrono::seconds(20));
    return found;
  }

  std::filesystem::path folder_;
  pid_t launcher_ = -1;
  int terminal_ = -1;
  std::thread reader_;
};

}  // namespace trireme::commands
