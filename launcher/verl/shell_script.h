// Reads a shell script that starts a training, as text: no program of it is run. What bash would hand to
// each command is found out from quotes, line continuations, variables, arrays, defaults and arithmetic;
// what depends on running something ($(...), the script's own arguments) is said at the words it is in.
#pragma once

#include <string>
#include <vector>

#include "launcher/verl/shell_words.h"

namespace trireme::verl {

struct ShellCommand {
  std::vector<ShellWord> words;  // never empty; without redirections and the assignments before it
};

/// The commands in the order of the text. if, for, while and case are not followed: their words fall away,
/// and what stands in them is read once. Throws invalid_config, with the line, where a quote, brace or
/// parenthesis is not closed.
std::vector<ShellCommand> read_shell(const std::string& text, const Environment& environment);

}  // namespace trireme::verl
