// The sub-commands of `trireme`: each reads its own arguments and returns an exit status. They throw
// Error; main shows it.
#pragma once

#include <string>
#include <vector>

namespace trireme::commands {

/// Without the program's name; the first is the command's.
using Arguments = std::vector<std::string>;

int run(const Arguments& arguments);
int plan(const Arguments& arguments);
int topo(const Arguments& arguments);
int doctor(const Arguments& arguments);
int slurm(const Arguments& arguments);
int list(const Arguments& arguments);
int status(const Arguments& arguments);
int logs(const Arguments& arguments);
int stop(const Arguments& arguments);
int samples(const Arguments& arguments);
int config(const Arguments& arguments);
int import_verl(const Arguments& arguments);
int docs(const Arguments& arguments);
int version();
int help(const Arguments& arguments);

struct Command {
  const char* name;
  const char* arguments;
  const char* summary;
  int (*call)(const Arguments&);
  bool hidden = false;
};
const std::vector<Command>& all_commands();

/// Finds the sub-command by arguments[0] and calls it. An unknown one throws invalid_config with the nearest.
int dispatch(const Arguments& arguments);

}  // namespace trireme::commands
