// Commands that need tensors, a tokenizer or data: trireme-trainer reads their options and does them.
#pragma once

#include "launcher/commands/commands.h"

namespace trireme::commands {

/// arguments[0] is the command. `-n RANKS` is taken off: more than one rank are started by mpirun, sharing
/// this machine's CPUs. Replaces this process, so that signals and the standard streams are the program's
/// own; returns never. Throws invalid_config (a bad -n), io (a program is missing).
int hand_on(const Arguments& arguments);

}  // namespace trireme::commands
