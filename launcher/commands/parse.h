// What the launcher's commands have in common on their command lines.
#pragma once

#include <string>
#include <vector>

#include "launcher/commands/commands.h"
#include "runtime/base/command_line.h"

namespace trireme::commands {

using command_line::options_of;
using command_line::parse;
using command_line::positional;

/// The positional arguments: CONFIG, then key=value. Throws invalid_config if there is no CONFIG.
struct ConfigArguments {
  std::string path;
  std::vector<std::string> overrides;
};
ConfigArguments config_arguments(const std::vector<std::string>& positional, const std::string& command);

/// Of the option --ranks; 0 if it is not given. Throws invalid_config below 1.
int asked_ranks(const cxxopts::ParseResult& parsed);

}  // namespace trireme::commands
