#include "launcher/commands/hand_on.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "launcher/backends/mpirun.h"
#include "launcher/commands/trainer_program.h"
#include "launcher/process/rank_settings.h"
#include "launcher/topology/machine.h"
#include "runtime/base/error.h"

namespace trireme::commands {
namespace {

int rank_count(const std::string& text) {
  int ranks = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ranks);
  if (error != std::errc() || end != text.data() + text.size() || ranks < 1)
    fail(ErrorCode::invalid_config, "-n '{}': a number of ranks, at least 1", text);
  return ranks;
}

// Takes `-n 2`, `-n2`, `--ranks 2` and `--ranks=2` off.
int take_ranks(Arguments& arguments) {
  int ranks = 1;
  for (size_t i = 1; i < arguments.size();) {
    const std::string& word = arguments[i];
    const bool alone = word == "-n" || word == "--ranks";
    if (alone && i + 1 == arguments.size()) fail(ErrorCode::invalid_config, "{}: how many ranks?", word);
    if (alone)
      ranks = rank_count(arguments[i + 1]);
    else if (word.starts_with("--ranks="))
      ranks = rank_count(word.substr(std::strlen("--ranks=")));
    else if (word.starts_with("-n") && word.size() > 2 &&
             word.find_first_not_of("0123456789", 2) == word.npos)
      ranks = rank_count(word.substr(2));
    else {
      ++i;
      continue;
    }
    const auto at = arguments.begin() + static_cast<ptrdiff_t>(i);
    arguments.erase(at, at + (alone ? 2 : 1));
  }
  return ranks;
}

[[noreturn]] void become(const std::vector<std::string>& command,
                         const std::vector<std::string>& environment) {
  std::vector<char*> words, variables;
  for (const auto& word : command) words.push_back(const_cast<char*>(word.c_str()));
  for (const auto& variable : environment) variables.push_back(const_cast<char*>(variable.c_str()));
  words.push_back(nullptr);
  variables.push_back(nullptr);
  ::execvpe(words[0], words.data(), variables.data());
  fail(ErrorCode::io, "cannot start {}: {}", command[0], std::strerror(errno));
}

}  // namespace

int hand_on(const Arguments& arguments) {
  Arguments words = arguments;
  const int ranks = take_ranks(words);
  words.insert(words.begin(), trainer_program());
  const auto backend = backends::Mpirun::from_environment();
  const auto is_ours = [](const std::string& name) {
    return name == "TRIREME_RANK" || name == "TRIREME_NUM_RANKS" || name == "TRIREME_LOCAL_RANK";
  };
  if (ranks == 1)  // whatever job this shell is part of
    become(words, process::environment_without(is_ours, {"TRIREME_RANK=0", "TRIREME_NUM_RANKS=1"}));
  std::vector<std::string> threads;
  if (!std::getenv("OMP_NUM_THREADS")) {
    const auto cpus = topology::discover(topology::SysFiles()).num_cpus();
    threads.push_back(fmt::format("OMP_NUM_THREADS={}", std::max(1, cpus / ranks)));
  }
  become(backend.plain_command_line(static_cast<size_t>(ranks), words),
         process::environment_without(
             [&](const std::string& name) { return is_ours(name) || backend.hides(name); }, threads));
}

}  // namespace trireme::commands
