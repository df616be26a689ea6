// Commands as one would type them.
#pragma once

#include <string>
#include <vector>

namespace trireme::commands {

/// Quoted where a shell needs it.
std::string shell_word(const std::string& word);
std::string shell_line(const std::vector<std::string>& words);

}  // namespace trireme::commands
