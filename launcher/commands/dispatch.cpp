#include <fmt/format.h>

#include "launcher/commands/commands.h"
#include "launcher/commands/examine_host.h"
#include "launcher/commands/gather_hosts.h"
#include "launcher/commands/hand_on.h"
#include "launcher/process/guard.h"
#include "runtime/base/error.h"

namespace trireme::commands {

const std::vector<Command>& all_commands() {
  static const std::vector<Command> commands{
      {"run", "CONFIG [key=value ...]", "check the configuration, start the ranks, watch them", run},
      {"plan", "[CONFIG [key=value ...]]", "show which rank would run where; forecast memory, time and cost on any machine", plan},
      {"topo", "", "show this machine's GPUs, HCAs and CPUs, and how ranks would be bound to them", topo},
      {"doctor", "[CONFIG ...] [--hosts a,b]", "look for what would stop or slow down a run, on every host",
       doctor},
      {"slurm", "CONFIG --nodes N ...", "write a batch script for Slurm, or submit it", slurm},
      {"list", "", "your runs, and what they are doing", list},
      {"status", "RUN", "what a run is doing, or why it ended", status},
      {"logs", "RUN [--rank N] [-f]", "the end of a rank's log", logs},
      {"samples", "RUN [--worst] [--grep TEXT]", "what the model answered, and how it was judged", samples},
      {"stop", "RUN [--now]", "let a run write a checkpoint and end", stop},
      {"config", "check|show|explain ...", "check or show a configuration, explain a key", config},
      {"import-verl", "[FILE ...]", "a configuration from a verl command or YAML", import_verl},
      {"tokenize", "--model DIR ...", "texts and conversations to token ids, and back", hand_on},
      {"score", "--model DIR ...", "log-probabilities of given texts", hand_on},
      {"generate", "--model DIR ...", "completions of prompts", hand_on},
      {"export", "SOURCE DESTINATION", "a checkpoint as a Hugging Face folder", hand_on},
      {"bench", "rollout|train-step|comm ...", "how fast this machine generates, trains and communicates",
       hand_on},
      {"docs", "configuration|metrics", "print the reference of all keys, or of all metrics", docs},
      {"help", "[COMMAND]", "this text, or a command's", help},
      {"guard", "", "started by mpirun or srun", [](const Arguments&) { return process::guard_rank(); },
       true},
      {"report-host", "", "started by mpirun or srun", report_host, true},
      {"examine-host", "", "started by mpirun or srun", examine_host, true},
  };
  return commands;
}

int dispatch(const Arguments& arguments) {
  if (arguments.empty()) return help({"help"});
  const std::string& name = arguments[0];
  if (name == "--version" || name == "version") return version();
  if (name == "--help" || name == "-h") return help({"help"});
  std::vector<std::string> names;
  for (const auto& command : all_commands()) {
    if (name == command.name) return command.call(arguments);
    if (!command.hidden) names.emplace_back(command.name);
  }
  const auto close = nearest(name, names);
  fail(ErrorCode::invalid_config, "there is no command '{}'{}", name,
       close.empty() ? "; `trireme help` lists them" : fmt::format("; did you mean `trireme {}`?", close));
}

int help(const Arguments& arguments) {
  if (arguments.size() > 1) return dispatch({arguments[1], "--help"});
  std::string text =
      "trireme: reinforcement learning for language models, one process per GPU or share of the cores\n"
      "\n"
      "  trireme run configs/quickstart.toml            train, on this machine\n"
      "  trireme run CONFIG -n 2 rollout.n=16           on two ranks, with a key changed\n"
      "\n"
      "commands:\n";
  for (const auto& command : all_commands())
    if (!command.hidden)
      text +=
          fmt::format("  {:<32}{}\n", fmt::format("{} {}", command.name, command.arguments), command.summary);
  text +=
      "  --version                       versions of this program and of its libraries\n"
      "\n"
      "`trireme help COMMAND` shows a command's options. Exit statuses: 0 done, 1 a rank failed, 2 wrong\n"
      "input (nothing was started), 3 a rank was killed, 4 a rank was lost or stalled, 75 stopped after a\n"
      "checkpoint, 130 Ctrl-C.\n";
  fmt::print("{}", text);
  return 0;
}

}  // namespace trireme::commands
