#include "launcher/commands/find_run.h"

#include <filesystem>
#include <vector>

#include "runtime/base/error.h"

namespace trireme::commands {

namespace fs = std::filesystem;
using process::ListedRun;

ListedRun find_run(const std::string& name) {
  const auto runs = process::listed_runs();
  if (fs::is_directory(name)) {
    const auto path = fs::canonical(name).string();
    for (const auto& run : runs)
      if (run.run_dir == path) return run;
    if (fs::exists(path + "/launch_plan.json")) return {.run_dir = path, .slurm_job = ""};
  }
  std::vector<ListedRun> found;
  for (const auto& run : runs) {
    const auto own = fs::path(run.run_dir).filename().string();
    if (own == name) return run;
    if (own.starts_with(name)) found.push_back(run);
  }
  if (found.size() == 1) return found[0];
  if (found.empty())
    fail(ErrorCode::invalid_config, "there is no run '{}': give its folder, or a name from `trireme list`",
         name);
  std::string names;
  for (const auto& run : found) names += "\n  " + fs::path(run.run_dir).filename().string();
  fail(ErrorCode::invalid_config, "'{}' may be several runs:{}", name, names);
}

ListedRun only_run(const cxxopts::ParseResult& parsed, const std::string& command) {
  const auto words = positional(parsed);
  if (words.size() != 1)
    fail(ErrorCode::invalid_config, "`trireme {} RUN`: one run, from `trireme list`", command);
  return find_run(words[0]);
}

}  // namespace trireme::commands
