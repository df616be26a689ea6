// What a configuration file and the command line say, key by key; whether it makes sense as a whole is for
// checks.h. Mistakes are collected, and the keys they concern remembered, so that one mistake is told once.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/error.h"
#include "trainer/config/run_config.h"

namespace trireme::config {

struct Written {
  std::string file;
  RunConfig config;
  std::map<std::string, std::string>
      origins;                     // key -> "FILE:LINE" or "command line: key=value"; else the default
  std::set<std::string> in_doubt;  // keys whose value is not what the user meant
  Mistakes mistakes;

  /// "FILE:LINE", "command line: key=value", or the file where the default holds.
  const std::string& where(const std::string& key) const;
};

/// `file` names the text in messages; `overrides` are "key=value", the last of a key wins. Never throws on
/// what the user wrote.
Written read_toml(const std::string& text, const std::string& file,
                  const std::vector<std::string>& overrides);

}  // namespace trireme::config
