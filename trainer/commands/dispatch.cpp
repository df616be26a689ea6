#include <cstdio>

#include <fmt/format.h>

#include "runtime/base/error.h"
#include "runtime/observe/metrics.h"
#include "runtime/session/session.h"
#include "trainer/commands/commands.h"

namespace trireme::commands {
namespace {

int version(const Arguments&) {
  fmt::print("trireme-trainer {}\ntorch: {}\n{}\n", TRIREME_VERSION, TRIREME_TORCH_VERSION,
             session::versions());
  return 0;
}

int docs(const Arguments& arguments) {
  if (arguments.size() != 2 || arguments[1] != "metrics")
    fail(ErrorCode::invalid_config, "the only reference here is `docs metrics`");
  fmt::print("{}", observe::metrics_markdown());
  return 0;
}

int help(const Arguments&) {
  fmt::print("trireme-trainer is what `trireme` starts for what needs tensors or data. By hand:\n");
  for (const Command& command : all_commands())
    fmt::print("  {:<36}{}\n", fmt::format("{} {}", command.name, command.arguments), command.summary);
  return 0;
}

}  // namespace

const std::vector<Command>& all_commands() {
  static const std::vector<Command> commands{
      {"run", "", "one rank of a run, as its launcher's environment says", run},
      {"check", "CONFIG [key=value ...]", "reads the data and the tokenizer, lists every mistake", check},
      {"tokenize", "--model DIR ...", "texts to token ids and back", tokenize},
      {"score", "--model DIR ...", "log-probabilities of texts", score},
      {"generate", "--model DIR ...", "completions of prompts", generate},
      {"export", "SOURCE DESTINATION", "a checkpoint as a Hugging Face folder", export_model},
      {"bench", "rollout|train-step|comm", "how fast this machine generates, trains and communicates", bench},
      {"docs", "metrics", "the text of docs/metrics.md", docs},
      {"help", "", "this text", help},
      {"--help", "", "this text", help},
      {"--version", "", "versions of this program and of its libraries", version},
  };
  return commands;
}

int dispatch(const Arguments& arguments) {
  const std::string name = arguments.empty() ? "help" : arguments[0];
  for (const Command& command : all_commands())
    if (name == command.name) return command.call(arguments);
  fail(ErrorCode::invalid_config, "there is no command '{}'; `trireme-trainer help` lists them", name);
}

}  // namespace trireme::commands
