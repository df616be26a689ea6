#include "launcher/commands/parse.h"

#include <fmt/format.h>

#include "runtime/base/error.h"

namespace trireme::commands {

cxxopts::Options options_of(const std::string& command, const std::string& arguments,
                            const std::string& summary) {
  cxxopts::Options options("trireme " + command, summary);
  options.custom_help("[options]");
  options.positional_help(arguments);
  options.set_width(100);
  options.add_options()("h,help", "this text");
  options.add_options("hidden")("positional", "", cxxopts::value<std::vector<std::string>>());
  options.parse_positional({"positional"});
  return options;
}

std::optional<cxxopts::ParseResult> parse(cxxopts::Options& options, const Arguments& arguments) {
  std::vector<const char*> words;
  for (const auto& argument : arguments) words.push_back(argument.c_str());
  try {
    auto result = options.parse(static_cast<int>(words.size()), words.data());
    if (!result.count("help")) return result;
    fmt::print("{}", options.help({""}));
    return std::nullopt;
  } catch (const cxxopts::exceptions::no_such_option& error) {
    std::vector<std::string> names;
    for (const auto& group : options.groups())
      for (const auto& option : options.group_help(group).options)
        if (group.empty() && !option.l.empty()) names.push_back("--" + option.l.front());
    std::string message = error.what(), close;
    for (const auto& argument : arguments)
      if (argument.starts_with("--") && close.empty())
        close = nearest(argument.substr(0, argument.find('=')), names);
    fail(ErrorCode::invalid_config, "{}{}; `trireme help {}` lists the options", message,
         close.empty() ? "" : fmt::format("; did you mean {}?", close), arguments[0]);
  } catch (const cxxopts::exceptions::exception& error) {
    fail(ErrorCode::invalid_config, "{}; `trireme help {}` lists the options", error.what(), arguments[0]);
  }
}

std::vector<std::string> positional(const cxxopts::ParseResult& parsed) {
  if (!parsed.count("positional")) return {};
  return parsed["positional"].as<std::vector<std::string>>();
}

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
