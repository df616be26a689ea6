// The run that a command is about.
#pragma once

#include <string>

#include "launcher/commands/parse.h"
#include "launcher/process/run_status.h"

namespace trireme::commands {

/// By its folder, its folder's name, or the beginning of that if there is only one such run. Throws
/// invalid_config.
process::ListedRun find_run(const std::string& name);

/// The only word after `trireme COMMAND`. Throws invalid_config.
process::ListedRun only_run(const cxxopts::ParseResult& parsed, const std::string& command);

}  // namespace trireme::commands
