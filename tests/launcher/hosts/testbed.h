// Several hosts on this machine, made by the script `testbed` beside this file, and what tests do on them.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/launcher/commands/launch.h"

namespace trireme::testbed {

namespace fs = std::filesystem;
using commands::build_folder;
using commands::read_all;
using commands::source_folder;
using commands::wait_until;
using Clock = std::chrono::steady_clock;

struct Result {
  int status = -1;
  std::string text;
};

/// Through a shell. Output and errors together.
inline Result shell(const std::string& command) {
  Result result;
  FILE* pipe = ::popen(("( " + command + " ) 2>&1").c_str(), "re");
  if (!pipe) return result;
  std::array<char, 4096> chunk{};
  while (std::fgets(chunk.data(), chunk.size(), pipe)) result.text += chunk.data();
  const int status = ::pclose(pipe);
  result.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return result;
}

/// Why a test bed cannot be had here; empty if it can.
inline std::string why_not(const std::vector<std::string>& programs) {
  if (::geteuid() != 0) return "only root may make network namespaces";
  for (const auto& program : programs)
    if (shell("PATH=$PATH:/usr/sbin:/sbin command -v " + program).status != 0)
      return program + " is not installed (tools/setup --tests)";
  static const bool allowed =
      shell("ip netns add trireme-probe-$$ && ip netns del trireme-probe-$$").status == 0;
  return allowed ? "" : "this container forbids network namespaces";
}

/// A few steps of GRPO on a model of some thousand parameters: about three seconds on two hosts of one core.
inline std::string tiny_configuration(int steps, int save_freq = 1) {
  return "[run]\nseed = 7\nthreads_per_rank = 1\n[model]\ndtype = \"fp32\"\n[model.init]\nhidden_size = 32\n"
         "intermediate_size = 64\nnum_hidden_layers = 2\nnum_attention_heads = 2\nnum_key_value_heads = 1\n"
         "max_position_embeddings = 128\n[data]\ntask = \"arithmetic\"\ntrain_batch_size = 8\n"
         "max_prompt_length = 64\nmax_response_length = 8\n[data.arithmetic]\nmin_operand = 10\nmax_operand "
         "= 99\n"
         "held_out_fraction = 0.073\nnum_val = 8\n[reward]\nname = \"arithmetic\"\n[algorithm]\nname = "
         "\"grpo\"\n"
         "[rollout]\nn = 4\n[actor]\nuse_kl_loss = false\n[trainer]\nval_before_train = "
         "false\n"
         "save_freq = " +
         std::to_string(save_freq) + "\ntotal_training_steps = " + std::to_string(steps) + "\n";
}

/// Tests that share one test bed of `kVerb` with `kHosts` hosts, which is up while they run.
class TestbedTest : public ::testing::Test {
 protected:
  static void bring_up(const std::string& verb, int hosts, const std::vector<std::string>& programs,
                       const std::string& settings = "") {
    reason() = why_not(programs);
    if (!reason().empty()) return;
    // Not /tmp, of which every host has its own.
    folder() = "/var/tmp/trireme-testbed-" + std::to_string(::getpid());
    fs::create_directories(folder() / "work");
    const auto made =
        shell(settings + " " + script() + " " + verb + " " + folder().string() + " " + std::to_string(hosts));
    ASSERT_EQ(made.status, 0) << made.text;
  }
  static void TearDownTestSuite() {
    if (folder().empty()) return;
    shell(script() + " down " + folder().string());
    fs::remove_all(folder());
    folder().clear();
  }
  void SetUp() override {
    if (!reason().empty()) GTEST_SKIP() << reason();
    // A name of its own for each test: runs lie side by side.
    run_dir_ = folder() / "work" / ::testing::UnitTest::GetInstance()->current_test_info()->name();
  }
  void TearDown() override {
    if (child_ > 0) {
      ::kill(-child_, SIGKILL);
      ::waitpid(child_, nullptr, 0);
    }
  }

  static std::string& reason() {
    static std::string text;
    return text;
  }
  static fs::path& folder() {
    static fs::path path;
    return path;
  }
  static std::string script() { return source_folder() + "/tests/launcher/hosts/testbed"; }
  static std::string program() { return build_folder() + "/bin/trireme"; }
  static std::string bed(const std::string& verb, const std::string& host) {
    return shell(script() + " " + verb + " " + folder().string() + " " + host).text;
  }
  static Result on(const std::string& host, const std::string& command) {
    return shell("cd " + (folder() / "work").string() + " && " + (folder() / "as").string() + " " + host +
                 " sh -c '" + command + "'");
  }

  static std::string write(const std::string& name, const std::string& text) {
    const auto path = folder() / "work" / name;
    std::ofstream(path) << text;
    return path;
  }

  /// Starts a shell's command on a host, its output going to a file.
  void start(const std::string& host, const std::string& command) {
    const auto log = run_dir_.string() + ".out";
    child_ = ::fork();
    if (child_ == 0) {
      ::setpgid(0, 0);
      const int fd = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
      ::dup2(fd, 1);
      ::dup2(fd, 2);
      const auto as = (folder() / "as").string();
      if (::chdir((folder() / "work").c_str()) == 0)
        ::execl(as.c_str(), as.c_str(), host.c_str(), "sh", "-c", command.c_str(), nullptr);
      ::_exit(126);
    }
  }
  std::string output() const { return read_all(run_dir_.string() + ".out"); }
  bool wait_for(const std::string& text, std::chrono::seconds limit = std::chrono::seconds(60)) const {
    const auto told = [&] { return output().find(text) != std::string::npos; };
    return wait_until([&] { return told() || has_ended(); }, limit) && told();
  }
  Result finish(std::chrono::seconds limit = std::chrono::seconds(120)) {
    Result result;
    int status = 0;
    if (wait_until([&] { return ::waitpid(child_, &status, WNOHANG) == child_; }, limit)) {
      child_ = -1;
      result.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    }
    result.text = output();
    return result;
  }

  /// Process ids, as this machine counts them, of a run's processes whose command line holds `what`.
  static std::vector<pid_t> processes(const fs::path& run_dir, const std::string& what) {
    std::vector<pid_t> found;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const auto name = entry.path().filename().string();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      auto command = read_all(entry.path() / "cmdline");
      std::replace(command.begin(), command.end(), '\0', ' ');
      if (command.find(what) == std::string::npos) continue;
      if (read_all(entry.path() / "environ").find("TRIREME_RUN_DIR=" + run_dir.string()) != std::string::npos)
        found.push_back(std::stoi(name));
    }
    return found;
  }
  /// Of the trainer that is this rank of the test's run; 0 if there is none.
  pid_t rank_process(int rank) const {
    for (const pid_t pid : processes(run_dir_, "trireme-trainer")) {
      const auto environment = read_all("/proc/" + std::to_string(pid) + "/environ");
      if (environment.find(std::string("TRIREME_RANK=") + std::to_string(rank) + '\0') != std::string::npos)
        return pid;
    }
    return 0;
  }
  bool nothing_is_left() const {
    return wait_until([&] { return processes(run_dir_, "").empty(); }, std::chrono::seconds(10));
  }

  static std::string weights(const fs::path& run_dir, int step) {
    return read_all(run_dir / "checkpoints" / ("step_" + std::to_string(step)) / "model.safetensors");
  }
  bool has_checkpoint(int step) const {
    const auto manifest = run_dir_ / "checkpoints" / ("step_" + std::to_string(step)) / "manifest.json";
    return wait_until([&] { return fs::exists(manifest) || has_ended(); }, std::chrono::seconds(60)) &&
           fs::exists(manifest);
  }
  /// The command that was started; it is still to be waited for.
  bool has_ended() const {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(child_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid != 0;
  }

  fs::path run_dir_;
  pid_t child_ = -1;
};

}  // namespace trireme::testbed
