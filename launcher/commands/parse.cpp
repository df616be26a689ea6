#include "launcher/commands/parse.h"

#include <fmt/format.h>

#include "runtime/base/error.h"

namespace trireme::commands {

int asked_ranks(const cxxopts::ParseResult& parsed) {
  if (!parsed.count("ranks")) return 0;
  const int ranks = parsed["ranks"].as<int>();
  if (ranks < 1) fail(ErrorCode::invalid_config, "-n {}: a run has at least one rank", ranks);
  return ranks;
}

ConfigArguments config_arguments(const std::vector<std::string>& positional, const std::string& command) {
  if (positional.empty())
    fail(ErrorCode::invalid_config, "no configuration file is named: `trireme {} CONFIG [key=value ...]`",
         command);
  // `trireme run lr=1 run.toml` would otherwise complain about a file that does not exist.
  if (positional[0].find('=') != std::string::npos && positional[0].find(".toml") == std::string::npos)
    fail(ErrorCode::invalid_config, "the configuration file comes first, before '{}'", positional[0]);
  return {positional[0], {positional.begin() + 1, positional.end()}};
}

}  // namespace trireme::commands
