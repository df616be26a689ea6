#include "launcher/commands/run_folder.h"

#include <fmt/chrono.h>

#include <ctime>
#include <filesystem>

#include "runtime/base/error.h"
#include "runtime/plan/launch_plan.h"

namespace trireme::commands {
namespace {

namespace fs = std::filesystem;

RunFolder asked_folder(const std::string& asked) {
  RunFolder folder{.path = fs::absolute(asked).lexically_normal().string()};
  while (folder.path.size() > 1 && folder.path.ends_with('/')) folder.path.pop_back();
  if (!fs::exists(folder.path)) return folder;
  if (!fs::is_directory(folder.path))
    fail(ErrorCode::invalid_config, "--run-dir {}: this is no folder", asked);
  const auto plan_path = plan::launch_plan_path(folder.path);
  if (fs::exists(plan_path)) {
    folder.exists = true;
    folder.attempt = plan::load_launch_plan(plan_path).attempt + 1;
  } else if (!fs::is_empty(folder.path)) {
    fail(ErrorCode::invalid_config,
         "--run-dir {}: this folder holds something, but no run (no launch_plan.json); name a new folder or "
         "a run's",
         asked);
  }
  return folder;
}

}  // namespace

RunFolder find_run_folder(const config::RunConfig& config, const std::string& config_path,
                          const std::string& asked) {
  if (!asked.empty()) return asked_folder(asked);
  const std::string name = config.run.name.empty() ? fs::path(config_path).stem().string() : config.run.name;
  const std::string stem = fmt::format("{}-{:%Y%m%d-%H%M%S}", name, fmt::localtime(std::time(nullptr)));
  fs::path path = fs::absolute(config.run.output_dir) / stem;
  for (int next = 2; fs::exists(path); ++next) path.replace_filename(fmt::format("{}-{}", stem, next));
  return {.path = path.lexically_normal().string()};
}

void make_run_folder(const RunFolder& folder) {
  std::error_code error;
  fs::create_directories(fs::path(folder.path) / "logs", error);
  if (error) fail(ErrorCode::io, "cannot make the run's folder {}: {}", folder.path, error.message());
}

}  // namespace trireme::commands
