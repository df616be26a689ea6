// The commands of `trireme-trainer`: what needs tensors, a tokenizer or data. `trireme` hands on to it what a
// user asks for; each command reads its own arguments and returns an exit status. They throw Error; main
// shows it.
#pragma once

#include <vector>

#include "runtime/base/command_line.h"

namespace trireme::commands {

using command_line::Arguments;

int run(const Arguments& arguments);    // one rank of a run; never throws
int check(const Arguments& arguments);  // of a configuration
int tokenize(const Arguments& arguments);
int score(const Arguments& arguments);
int generate(const Arguments& arguments);
int export_model(const Arguments& arguments);
int bench(const Arguments& arguments);
int bench_comm(const Arguments& arguments);  // `bench comm`

struct Command {
  const char* name;
  const char* arguments;
  const char* summary;
  int (*call)(const Arguments&);
};
const std::vector<Command>& all_commands();

/// Finds the command by arguments[0] and calls it. Throws invalid_config for an unknown one.
int dispatch(const Arguments& arguments);

}  // namespace trireme::commands
