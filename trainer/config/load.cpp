#include "trainer/config/load.h"

#include <fmt/format.h>

#include <filesystem>

#include "runtime/base/files.h"
#include "trainer/config/checks.h"
#include "trainer/config/schema.h"

namespace trireme::config {
namespace {

namespace fs = std::filesystem;

// A wrong path to the configuration itself: the nearest file beside it, else in configs/.
[[noreturn]] void no_such_file(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored))
    fail(ErrorCode::invalid_config, "{} is a folder: name a configuration file (*.toml) in it", path);
  std::vector<std::string> candidates;
  for (const fs::path& folder : {fs::path(path).parent_path(), fs::path("configs")})
    for (fs::directory_iterator entry(folder.empty() ? "." : folder, ignored), end; entry != end && !ignored;
         entry.increment(ignored))
      if (entry->path().extension() == ".toml")
        candidates.push_back((folder / entry->path().filename()).string());
  std::string near = nearest(path, candidates);
  for (const std::string& name :
       {fs::path(path).filename().string(), fs::path(path).filename().string() + ".toml"})
    for (const std::string& candidate : candidates)
      if (near.empty() && fs::path(candidate).filename() == name) near = candidate;
  fail(ErrorCode::invalid_config, "there is no configuration file {}{}", path,
       near.empty() ? "" : fmt::format("; did you mean {}?", near));
}

std::string heading(const Mistakes& mistakes, const std::string& path) {
  const size_t count = mistakes.lines().size();
  return fmt::format("{} {} in the configuration {}:", count, count == 1 ? "mistake" : "mistakes", path);
}

}  // namespace

LoadedConfig load_with_origins(const std::string& path, const std::vector<std::string>& overrides,
                               Paths paths) {
  std::error_code ignored;
  if (!fs::exists(path, ignored) || fs::is_directory(path, ignored)) no_such_file(path);
  Written written = read_toml(files::read(path), path, overrides);
  check_values(written);
  if (paths == Paths::check) check_paths(written);
  written.mistakes.throw_if_any(heading(written.mistakes, path));
  return {std::move(written.config), std::move(written.origins)};
}

RunConfig load(const std::string& path, const std::vector<std::string>& overrides, Paths paths) {
  return load_with_origins(path, overrides, paths).config;
}

std::string to_toml(const RunConfig& config) {
  std::string text, table;
  for (const Key& key : keys()) {
    if (key.table() != table) {
      text += fmt::format("{}[{}]\n", table.empty() ? "" : "\n", key.table());
      table = key.table();
    }
    text += fmt::format("{} = {}\n", key.leaf(), value_text(key, config));
  }
  return text;
}

}  // namespace trireme::config
