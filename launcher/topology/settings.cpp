#include "launcher/topology/settings.h"

#include <unistd.h>

#include <sstream>

namespace trireme::topology {

Settings Settings::of_this_process(const SysFiles& files) {
  Settings settings;
  for (char** at = environ; *at; ++at) {
    const std::string entry = *at;
    const auto equals = entry.find('=');
    if (equals != std::string::npos)
      settings.values_.try_emplace(entry.substr(0, equals), Value{entry.substr(equals + 1), "environment"});
  }
  // Files of this machine say nothing of a recorded one.
  if (!files.is_this_machine()) return settings;
  const auto home = settings.find("HOME").value_or("");
  for (const std::string library : {"nccl", "rccl"})
    settings.add_file(files, settings.find("NCCL_CONF_FILE").value_or(home + "/." + library + ".conf"));
  for (const std::string library : {"nccl", "rccl"}) settings.add_file(files, "/etc/" + library + ".conf");
  return settings;
}

Settings& Settings::set(const std::string& name, const std::string& text, const std::string& source) {
  values_[name] = {text, source};
  return *this;
}

std::optional<std::string> Settings::find(const std::string& name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? std::nullopt : std::optional(found->second.text);
}

void Settings::add_file(const SysFiles& files, const std::string& path) {
  if (path.size() < 2 || path[0] != '/') return;
  std::istringstream lines(files.text(path.substr(1)).value_or(""));
  for (std::string line; std::getline(lines, line);) {
    const auto equals = line.find('=');
    if (equals == std::string::npos || line[0] == '#') continue;
    values_.try_emplace(line.substr(0, equals), Value{line.substr(equals + 1), path});
  }
}

}  // namespace trireme::topology
