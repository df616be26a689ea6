#include "runtime/base/command_line.h"

#include <fmt/format.h>

#include "runtime/base/error.h"

namespace trireme::command_line {

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
  // As they were given: cxxopts cuts lists at commas, and an override's value may have some.
  std::vector<std::string> given;
  for (const auto& argument : parsed.arguments())
    if (argument.key() == "positional") given.push_back(argument.value());
  return given;
}

}  // namespace trireme::command_line
