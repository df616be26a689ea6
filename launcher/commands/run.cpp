#include <cstdio>
#include <filesystem>

#include "launcher/backends/mpirun.h"
#include "launcher/commands/commands.h"
#include "launcher/commands/make_plan.h"
#include "launcher/commands/parse.h"
#include "launcher/commands/plan_table.h"
#include "launcher/commands/run_folder.h"
#include "launcher/commands/trainer_program.h"
#include "launcher/process/supervisor.h"
#include "runtime/base/error.h"
#include "runtime/base/files.h"
#include "trainer/config/load.h"

namespace trireme::commands {
namespace {

cxxopts::Options run_options() {
  auto options = options_of("run", "CONFIG [key=value ...]",
                            "Checks the configuration, starts the ranks on this machine and watches them.\n");
  options.add_options()("n,ranks", "number of ranks (default: run.ranks, else one per GPU, else 1)",
                        cxxopts::value<int>(),
                        "RANKS")("run-dir",
                                 "the run's folder; an existing run is continued from its last checkpoint "
                                 "(default: a new folder in run.output_dir)",
                                 cxxopts::value<std::string>()->default_value(""),
                                 "DIR")("dry-run", "show the plan and the command, start nothing")(
      "v,verbose", "show the plan and the command, too");
  options.add_options("hidden")("rank-program", "", cxxopts::value<std::string>()->default_value(""));
  return options;
}

// A word as a shell would want it.
std::string shell_word(const std::string& word) {
  const bool plain = !word.empty() && word.find_first_not_of(
                                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                          "0123456789_-+=./:,@%") == std::string::npos;
  if (plain) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string shell_line(const std::vector<std::string>& words) {
  std::string line;
  for (const auto& word : words) line += (line.empty() ? "" : " ") + shell_word(word);
  return line;
}

std::vector<std::string> trainer_command(const std::string& verb, const ConfigArguments& given) {
  std::vector<std::string> command{trainer_program(), verb, given.path};
  command.insert(command.end(), given.overrides.begin(), given.overrides.end());
  return command;
}

// What only a full read of the data finds. Returns 0, or the status to end with.
int check_data(const config::RunConfig& config, const ConfigArguments& given) {
  if (config.data.task != "files") return 0;
  const int status = run_and_wait(trainer_command("check", given));
  if (status == 0 || status == static_cast<int>(ExitStatus::bad_input)) return status;
  fail(ErrorCode::io, "`{}` ended with status {}", shell_line(trainer_command("check", given)), status);
}

std::string relative_path(const std::string& path) {
  const auto shorter =
      std::filesystem::path(path).lexically_proximate(std::filesystem::current_path()).string();
  return shorter.starts_with("..") ? path : shorter;
}

}  // namespace

int run(const Arguments& arguments) {
  auto options = run_options();
  const auto parsed = parse(options, arguments);
  if (!parsed) return 0;
  const auto given = config_arguments(positional(*parsed), "run");
  const auto config = config::load(given.path, given.overrides);
  const auto host = host_for(config);
  auto planned = make_plan(config, host, asked_ranks(*parsed));
  process::Job job{.plan = std::move(planned.plan), .guard = {program_folder() + "/trireme", "guard"}};
  const auto replacement = (*parsed)["rank-program"].as<std::string>();
  job.plan.program = {
      replacement.empty() ? trainer_program() : std::filesystem::absolute(replacement).string(), "run"};
  if (replacement.empty())
    if (const int status = check_data(config, given)) return status;

  const auto folder = find_run_folder(config, given.path, (*parsed)["run-dir"].as<std::string>());
  job.plan.run_dir = folder.path;
  job.plan.attempt = folder.attempt;
  const auto backend = backends::Mpirun::from_environment();
  const bool dry_run = parsed->count("dry-run") > 0;
  if (dry_run || parsed->count("verbose"))
    fmt::print(stderr, "{}{}\n", plan_table(job.plan, config),
               shell_line(backend.command_line(job.plan, job.guard)));
  if (dry_run) {
    for (const auto& warning : planned.warnings) fmt::print(stderr, "warning: {}\n", warning);
    return 0;
  }

  make_run_folder(folder);
  files::write_atomically(folder.path + "/config.toml", config::to_toml(config));
  plan::save(job.plan, plan::launch_plan_path(folder.path));
  std::vector<std::string> again{"trireme", "run", given.path};
  again.insert(again.end(), given.overrides.begin(), given.overrides.end());
  if (const int ranks = asked_ranks(*parsed)) again.insert(again.end(), {"-n", std::to_string(ranks)});
  again.insert(again.end(), {"--run-dir", relative_path(folder.path)});
  job.how_to_resume = shell_line(again);

  console::Console console(console::Style::of_this_process());
  console.err(fmt::format("trireme: {} {} on {}, {} {}", job.plan.ranks.size(),
                          job.plan.ranks.size() == 1 ? "rank" : "ranks", host.machine.host,
                          folder.exists ? "continuing" : "run folder", relative_path(folder.path)));
  for (const auto& warning : planned.warnings) console.err("trireme: warning: " + warning);
  return process::supervise(job, backend, console);
}

}  // namespace trireme::commands
