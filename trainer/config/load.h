// From a configuration file and the command line to a RunConfig that makes sense, or to one message with
// everything that is wrong with it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trainer/config/run_config.h"

namespace trireme::config {

/// Whether files and folders named in the configuration must exist here and now.
enum class Paths { check, ignore };

struct LoadedConfig {
  RunConfig config;
  std::map<std::string, std::string>
      origins;  // key -> "FILE:LINE" or "command line: key=value"; else the default
};

/// Reads the TOML file at `path`, then `overrides` ("rollout.n=8"; the last of a key wins), then checks the
/// whole. Relative paths stay as written, relative to the working directory. Throws invalid_config with all
/// mistakes, one line each, "FILE:LINE: what; what to try".
LoadedConfig load_with_origins(const std::string& path, const std::vector<std::string>& overrides = {},
                               Paths paths = Paths::check);
RunConfig load(const std::string& path, const std::vector<std::string>& overrides = {},
               Paths paths = Paths::check);

/// Checks that need the number of ranks: placements must name existing ranks, every rank must have a role,
/// and every rank of a role something to do. A batch need not divide by the ranks (the exchange balances
/// groups), but must have a prompt for each. Throws invalid_config with all mistakes.
void check_ranks(const RunConfig& config, int num_ranks);

/// The configuration with every key, in the schema's order: load(to_toml(c)) == c.
std::string to_toml(const RunConfig& config);

}  // namespace trireme::config
