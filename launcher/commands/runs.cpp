// `trireme list`, `status`, `logs` and `stop`: runs of this user, local ones and those of Slurm jobs.
#include <fmt/chrono.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "launcher/commands/commands.h"
#include "launcher/commands/find_run.h"
#include "launcher/commands/parse.h"
#include "launcher/commands/shell_line.h"
#include "launcher/process/rank_log.h"
#include "launcher/process/run_status.h"
#include "runtime/base/error.h"

namespace trireme::commands {
namespace {

namespace fs = std::filesystem;
using process::ListedRun;
using process::RunStatus;

std::string first_line_of(const std::string& command) {
  FILE* pipe = ::popen((command + " 2>/dev/null").c_str(), "re");
  if (!pipe) return {};
  std::array<char, 256> line{};
  const bool found = std::fgets(line.data(), line.size(), pipe) != nullptr;
  ::pclose(pipe);
  std::string text = found ? line.data() : "";
  return text.substr(0, text.find('\n'));
}

// "PENDING", "RUNNING", ...; empty if Slurm does not know it.
std::string job_state(const std::string& job) {
  return first_line_of("squeue -h -j " + shell_word(job) + " -o %T");
}

// What a run is doing, in one word.
std::string state_of(const ListedRun& run, const std::optional<RunStatus>& status) {
  if (!status) {
    const auto job = run.slurm_job.empty() ? std::string() : job_state(run.slurm_job);
    return job.empty() ? "never began" : job == "PENDING" ? "queued" : "starting";
  }
  if (status->state == "ended") {
    switch (static_cast<ExitStatus>(status->exit_status)) {
      case ExitStatus::ok:
        return "done";
      case ExitStatus::checkpointed:
        return !status->slurm_job.empty() && job_state(status->slurm_job) == "PENDING" ? "queued again"
                                                                                       : "stopped";
      case ExitStatus::interrupted:
        return "stopped";
      default:
        return fmt::format("failed ({})", status->exit_status);
    }
  }
  if (const auto lives = process::launcher_lives(*status)) return *lives ? status->state : "killed";
  if (status->slurm_job.empty()) return status->state + "?";
  const auto job = job_state(status->slurm_job);
  return job == "RUNNING" ? status->state : job == "PENDING" ? "queued again" : "killed";
}

// The last step that its metrics tell of.
std::string step_of(const std::string& run_dir) {
  const auto lines = process::last_lines(run_dir + "/metrics.jsonl", 1);
  if (lines.empty()) return "-";
  const auto metrics = nlohmann::json::parse(lines[0], nullptr, false);
  if (metrics.is_discarded() || !metrics.contains("step")) return "-";
  return metrics["step"].dump();
}

std::string where_of(const RunStatus& status) {
  std::string text = status.hosts > 1 ? fmt::format("{} hosts", status.hosts) : status.host;
  if (!status.slurm_job.empty()) text += fmt::format(" (job {})", status.slurm_job);
  return text;
}

void follow(const std::string& path, const RunStatus& status) {
  std::ifstream in(path, std::ios::binary);
  in.seekg(0, std::ios::end);
  for (;;) {
    for (std::string line; std::getline(in, line);) fmt::print("{}\n", line);
    std::fflush(stdout);
    const auto now = process::load_status(status.run_dir);
    if (!now || now->state == "ended" || process::launcher_lives(*now) == false) return;
    in.clear();
    ::usleep(200'000);
  }
}

}  // namespace

int list(const Arguments& arguments) {
  auto options =
      options_of("list", "", "Lists your runs, newest first: local ones, and those of Slurm jobs.\n");
  const auto parsed = parse(options, arguments);
  if (!parsed) return 0;
  fmt::print("{:<36} {:<14} {:>6} {:>6}  {:<20} {}\n", "RUN", "STATE", "STEP", "RANKS", "WHERE", "BEGAN");
  for (const auto& run : process::listed_runs()) {
    const auto status = process::load_status(run.run_dir);
    const auto name = fs::path(run.run_dir).filename().string();
    if (!status) {
      fmt::print("{:<36} {:<14} {:>6} {:>6}  {:<20}\n", name, state_of(run, status), "-", "-",
                 "job " + run.slurm_job);
      continue;
    }
    fmt::print("{:<36} {:<14} {:>6} {:>6}  {:<20} {:%Y-%m-%d %H:%M}\n", name, state_of(run, status),
               step_of(run.run_dir), status->ranks, where_of(*status), fmt::localtime(status->started_s));
  }
  return 0;
}

int status(const Arguments& arguments) {
  auto options = options_of("status", "RUN", "Tells what a run is doing, or why it ended.\n");
  const auto parsed = parse(options, arguments);
  if (!parsed) return 0;
  const auto run = only_run(*parsed, "status");
  const auto found = process::load_status(run.run_dir);
  fmt::print("run       {}\nstate     {}\n", run.run_dir, state_of(run, found));
  if (!found) return 0;
  fmt::print(
      "where     {}, launcher {} on {}\nbegan     {:%Y-%m-%d %H:%M:%S}\nranks     {}\nstep      {}\nattempt  "
      " {}\n",
      where_of(*found), found->pid, found->host, fmt::localtime(found->started_s), found->ranks,
      step_of(run.run_dir), found->attempt);
  if (found->exit_status >= 0) fmt::print("exit      {}\n", found->exit_status);
  if (!found->message.empty()) fmt::print("message   {}\n", found->message);
  return 0;
}

int logs(const Arguments& arguments) {
  auto options = options_of("logs", "RUN", "Shows the end of a rank's log.\n");
  options.add_options()("rank", "whose", cxxopts::value<int>()->default_value("0"), "RANK")(
      "lines", "how many", cxxopts::value<int>()->default_value("50"), "LINES")("f,follow",
                                                                                "go on until the run ends");
  const auto parsed = parse(options, arguments);
  if (!parsed) return 0;
  const auto run = only_run(*parsed, "logs");
  const auto path = process::rank_log_path(run.run_dir, (*parsed)["rank"].as<int>());
  if (!fs::exists(path)) fail(ErrorCode::io, "there is no {}", path);
  for (const auto& line :
       process::last_lines(path, static_cast<size_t>(std::max(0, (*parsed)["lines"].as<int>()))))
    fmt::print("{}\n", line);
  const auto status = process::load_status(run.run_dir);
  if (parsed->count("follow") && status) follow(path, *status);
  return 0;
}

int stop(const Arguments& arguments) {
  auto options =
      options_of("stop", "RUN",
                 "Asks a run to write a checkpoint and to end, and a Slurm job not to go back into the "
                 "queue.\n");
  options.add_options()("now", "at once, without a checkpoint");
  const auto parsed = parse(options, arguments);
  if (!parsed) return 0;
  const auto run = only_run(*parsed, "stop");
  const auto status = process::load_status(run.run_dir);
  const bool now = parsed->count("now") > 0;
  const auto job = status && !status->slurm_job.empty() ? status->slurm_job : run.slurm_job;
  const auto in_slurm = job.empty() ? std::string() : job_state(job);
  if (!in_slurm.empty()) {
    std::ofstream(run.run_dir + "/stop") << "";  // the batch script looks for it
    const bool whole = now || in_slurm == "PENDING";
    const auto command =
        whole ? "scancel " + shell_word(job) : "scancel --batch --signal=TERM " + shell_word(job);
    if (std::system(command.c_str()) != 0) fail(ErrorCode::io, "`{}` failed", command);
    return 0;
  }
  if (!status || status->state == "ended") fail(ErrorCode::invalid_config, "{} does not run", run.run_dir);
  const auto lives = process::launcher_lives(*status);
  if (!lives)
    fail(ErrorCode::invalid_config, "its launcher is on {}; there: kill -TERM {}", status->host, status->pid);
  if (!*lives) fail(ErrorCode::invalid_config, "{} does not run: its launcher was killed", run.run_dir);
  ::kill(status->pid, now ? SIGINT : SIGTERM);
  if (now) {
    ::usleep(200'000);
    ::kill(status->pid, SIGINT);
  }
  return 0;
}

}  // namespace trireme::commands
