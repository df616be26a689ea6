#include <csignal>
#include <cstdio>
#include <filesystem>

#include "launcher/commands/attempts.h"
#include "launcher/commands/commands.h"
#include "launcher/commands/make_plan.h"
#include "launcher/commands/parse.h"
#include "launcher/commands/plan_table.h"
#include "launcher/commands/run_folder.h"
#include "launcher/commands/shell_line.h"
#include "launcher/commands/trainer_program.h"
#include "launcher/commands/where.h"
#include "runtime/base/error.h"
#include "trainer/config/load.h"

namespace trireme::commands {
namespace {

cxxopts::Options run_options() {
  auto options =
      options_of("run", "CONFIG [key=value ...]",
                 "Checks the configuration, starts the ranks and watches them: on this machine, on hosts\n"
                 "over ssh (--hosts, --hostfile), or on the nodes of the Slurm job around it.\n");
  add_where_options(options);
  options.add_options()("run-dir",
                        "the run's folder; an existing run is continued from its last checkpoint "
                        "(default: a new folder in run.output_dir)",
                        cxxopts::value<std::string>()->default_value(""), "DIR")(
      "max-restarts", "how often a run that failed is started again (default: 0 on this machine, else 3)",
      cxxopts::value<int>(), "TIMES")(
      "stall-timeout",
      "without any progress, the run counts as stalled (default: 300, or ten times the longest wait so far)",
      cxxopts::value<int>(), "SECONDS")("dry-run", "show the plan and the command, start nothing")(
      "v,verbose", "show the plan and the command, too");
  options.add_options("hidden")("rank-program", "", cxxopts::value<std::string>()->default_value(""));
  return options;
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

// The same command, in the same folder.
std::string how_to_resume(const Arguments& arguments, const std::string& run_dir) {
  std::vector<std::string> again{"trireme"};
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--run-dir")
      ++i;
    else if (!arguments[i].starts_with("--run-dir="))
      again.push_back(arguments[i]);
  }
  again.insert(again.end(), {"--run-dir", relative_path(run_dir)});
  return shell_line(again);
}

int at_least(const cxxopts::ParseResult& parsed, const char* name, int least, int otherwise) {
  if (!parsed.count(name)) return otherwise;
  const int value = parsed[name].as<int>();
  if (value < least) fail(ErrorCode::invalid_config, "--{} {}: at least {}", name, value, least);
  return value;
}

// A batch system's warning that comes before the ranks run waits until the attempt begins, which obeys it.
void hold_warnings() {
  sigset_t warnings;
  sigemptyset(&warnings);
  sigaddset(&warnings, SIGUSR1);
  ::pthread_sigmask(SIG_BLOCK, &warnings, nullptr);
}

std::string where_text(const Campaign& campaign) {
  std::string text;
  const auto& gathered = campaign.gathered;
  for (int i = 0; i < gathered.num_used() && i < 4; ++i)
    text += (i ? ", " : "") + gathered.hosts[static_cast<size_t>(i)].machine.host;
  if (gathered.num_used() > 4) text += fmt::format(" and {} more hosts", gathered.num_used() - 4);
  return text;
}

}  // namespace

int run(const Arguments& arguments) {
  hold_warnings();
  auto options = run_options();
  const auto parsed = parse(options, arguments);
  if (!parsed) return 0;
  const auto given = config_arguments(positional(*parsed), "run");
  const auto config = config::load(given.path, given.overrides);
  Campaign campaign{.config = config, .where = where_to_run(*parsed)};
  const bool is_local = campaign.where.kind == Where::Kind::this_machine;
  campaign.max_restarts = at_least(*parsed, "max-restarts", 0, is_local ? 0 : 3);
  campaign.stall_timeout = std::chrono::seconds(at_least(*parsed, "stall-timeout", 1, 0));
  const auto replacement = (*parsed)["rank-program"].as<std::string>();
  if (replacement.empty())
    if (const int status = check_data(config, given)) return status;
  trainer_program();  // if it is missing here, say so before anything starts
  const auto folder = find_run_folder(config, given.path, (*parsed)["run-dir"].as<std::string>());
  campaign.gathered = gather(campaign.where, config);
  campaign.program = {replacement.empty() ? campaign.where.program_folder() + "/trireme-trainer"
                                          : std::filesystem::absolute(replacement).string(),
                      "run"};
  campaign.holds_stop = replacement.empty();
  campaign.run_dir = folder.path;
  campaign.first_attempt = folder.attempt;
  campaign.how_to_resume = how_to_resume(arguments, folder.path);
  auto planned = plan_for(config, campaign.gathered);
  const bool dry_run = parsed->count("dry-run") > 0;
  if (dry_run || parsed->count("verbose"))
    fmt::print(stderr, "{}{}\n", plan_table(planned.plan, config),
               shell_line(command_of(campaign, planned.use_rdma)));
  for (const auto& warning : planned.warnings) fmt::print(stderr, "trireme: warning: {}\n", warning);
  if (dry_run) return 0;

  make_run_folder(folder);
  fmt::print(stderr, "trireme: {} {} on {}, {} {}\n", planned.plan.ranks.size(),
             planned.plan.ranks.size() == 1 ? "rank" : "ranks", where_text(campaign),
             folder.exists ? "continuing" : "run folder", relative_path(folder.path));
  return run_attempts(campaign);
}

}  // namespace trireme::commands
