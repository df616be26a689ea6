// Options of one sub-command: reading them, and saying what is wrong with them.
#pragma once

#include <cxxopts.hpp>
#include <optional>
#include <string>
#include <vector>

#include "launcher/commands/commands.h"

namespace trireme::commands {

/// A sub-command's Options, with --help and the text that stands after its name in the usage line.
cxxopts::Options options_of(const std::string& command, const std::string& arguments,
                            const std::string& summary);

/// Nothing if --help was asked for and has been shown. Throws invalid_config, which names the nearest option.
std::optional<cxxopts::ParseResult> parse(cxxopts::Options& options, const Arguments& arguments);

/// The positional arguments: CONFIG, then key=value. Throws invalid_config if there is no CONFIG.
struct ConfigArguments {
  std::string path;
  std::vector<std::string> overrides;
};
ConfigArguments config_arguments(const std::vector<std::string>& positional, const std::string& command);

/// All positional arguments.
std::vector<std::string> positional(const cxxopts::ParseResult& parsed);
/// Of the option --ranks; 0 if it is not given. Throws invalid_config below 1.
int asked_ranks(const cxxopts::ParseResult& parsed);

}  // namespace trireme::commands
