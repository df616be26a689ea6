// Settings of libraries that a rank will find: environment variables, and what NCCL's own files add.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "launcher/topology/sys_files.h"

namespace trireme::topology {

class Settings {
 public:
  struct Value {
    std::string text;
    std::string source;  // "environment", "/etc/nccl.conf"
  };

  Settings() = default;
  explicit Settings(std::map<std::string, Value> values) : values_(std::move(values)) {}
  /// This process's environment, then the file named by NCCL_CONF_FILE, else ~/.nccl.conf, then
  /// /etc/nccl.conf (RCCL: rccl.conf), as NCCL reads them: what comes first stands.
  static Settings of_this_process(const SysFiles& files);
  /// As if that had been set, for tests and for "what if".
  Settings& set(const std::string& name, const std::string& text, const std::string& source = "environment");

  std::optional<std::string> find(const std::string& name) const;
  bool has(const std::string& name) const { return values_.contains(name); }
  const std::map<std::string, Value>& all() const { return values_; }

 private:
  void add_file(const SysFiles& files, const std::string& path);

  std::map<std::string, Value> values_;
};

}  // namespace trireme::topology
