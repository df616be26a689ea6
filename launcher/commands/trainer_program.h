// The other program, trireme-trainer, for what needs tensors or data.
#pragma once

#include <string>
#include <vector>

namespace trireme::commands {

/// Its path, beside this program. Throws io if it is not there.
std::string trainer_program();

/// Runs a program on our own standard streams and waits for it. Returns its exit status, 128 + signal if one
/// ended it.
int run_and_wait(const std::vector<std::string>& command);

}  // namespace trireme::commands
