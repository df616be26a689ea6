#include "runtime/checkpoint/checkpoint.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "runtime/base/error.h"
#include "runtime/base/files.h"
#include "runtime/base/log.h"
#include "runtime/checkpoint/manifest.h"

namespace trireme::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kUnfinished = ".part";
constexpr std::string_view kStep = "step_";

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 && name[0] != '\0' ? name : "localhost";
}

/// final name, then who writes it: NAME.HOST.PID.part
struct Unfinished {
  std::string final_name, host;
  pid_t pid = 0;

  std::string name() const { return fmt::format("{}.{}.{}{}", final_name, host, pid, kUnfinished); }

  /// Of a name in `folder` that may be one: `final_name` is known or, if empty, "step_N".
  static std::optional<Unfinished> parse(std::string_view name, std::string_view final_name) {
    if (!name.ends_with(kUnfinished)) return std::nullopt;
    name.remove_suffix(kUnfinished.size());
    Unfinished result;
    const size_t last = name.rfind('.');
    if (last == std::string_view::npos) return std::nullopt;
    const auto pid = name.substr(last + 1);
    const auto [end, error] = std::from_chars(pid.data(), pid.data() + pid.size(), result.pid);
    if (error != std::errc() || end != pid.data() + pid.size() || result.pid <= 0) return std::nullopt;
    name = name.substr(0, last);
    const size_t length = final_name.empty() ? name.find('.') : final_name.size();
    if (length >= name.size() || name[length] != '.') return std::nullopt;
    result.final_name = name.substr(0, length);
    result.host = name.substr(length + 1);
    if (final_name.empty() ? !result.final_name.starts_with(kStep) : result.final_name != final_name)
      return std::nullopt;
    return result;
  }

  bool alive() const { return host == host_name() && (::kill(pid, 0) == 0 || errno == EPERM); }
};

[[noreturn]] void fail_rename(const std::string& from, const std::string& to) {
  fail(ErrorCode::io, "cannot rename {} to {}: {}", from, to, std::strerror(errno));
}

/// What a file system says becomes io, with its own words.
template <typename Work>
auto told_as_io(const Work& work) {
  try {
    return work();
  } catch (const fs::filesystem_error& error) {
    fail(ErrorCode::io, "{}", error.what());
  }
}

void sync_parent(const std::string& path) {
  const auto parent = fs::path(path).parent_path();
  files::sync_folder(parent.empty() ? "." : parent.string());
}

/// Puts `ready` under the final name; an older folder of that name is deleted after.
void put_in_place(const std::string& ready, const std::string& final_path) {
  if (!fs::exists(fs::symlink_status(final_path))) {
    if (std::rename(ready.c_str(), final_path.c_str()) != 0) fail_rename(ready, final_path);
  } else if (::renameat2(AT_FDCWD, ready.c_str(), AT_FDCWD, final_path.c_str(), RENAME_EXCHANGE) == 0) {
    sync_parent(final_path);
    fs::remove_all(ready);  // the old one: it has the other name now
  } else {                  // a file system without that call
    Unfinished old{fs::path(final_path).filename().string() + ".old", host_name(), ::getpid()};
    const std::string aside = (fs::path(final_path).parent_path() / old.name()).string();
    if (std::rename(final_path.c_str(), aside.c_str()) != 0) fail_rename(final_path, aside);
    if (std::rename(ready.c_str(), final_path.c_str()) != 0) {
      const int reason = errno;
      std::rename(aside.c_str(), final_path.c_str());
      errno = reason;
      fail_rename(ready, final_path);
    }
    sync_parent(final_path);
    fs::remove_all(aside);
  }
  sync_parent(final_path);
}

std::optional<int64_t> step_of(const fs::path& path) {
  const std::string name = path.filename().string();
  if (!name.starts_with(kStep)) return std::nullopt;
  int64_t step = 0;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kStep.size(), end, step);
  if (error != std::errc() || stop != end || step < 0) return std::nullopt;
  return step;
}

/// Step and path of each folder step_N, newest first.
std::vector<std::pair<int64_t, std::string>> step_folders(const std::string& checkpoints_folder) {
  std::vector<std::pair<int64_t, std::string>> found;
  if (!fs::exists(checkpoints_folder)) return found;
  for (const auto& entry : fs::directory_iterator(checkpoints_folder))
    if (const auto step = step_of(entry.path()); step && entry.is_directory())
      found.emplace_back(*step, entry.path().string());
  std::ranges::sort(found, std::greater{});
  return found;
}

/// Why the folder is not complete, or "": a look at the manifest and the sizes, without reading the files.
std::string incompleteness(const std::string& path) {
  try {
    for (const auto& entry : read_manifest(path)) {
      std::error_code error;
      const auto size = fs::file_size(fs::path(path) / entry.path, error);
      if (error) return fmt::format("{}: {}", entry.path, error.message());
      if (size != entry.size)
        return fmt::format("{} has {} bytes instead of {}", entry.path, size, entry.size);
    }
    return {};
  } catch (const Error& error) {
    return error.message();
  }
}

}  // namespace

void write_folder(const std::string& final_path_in,
                  const std::function<void(const std::string& folder)>& fill) {
  told_as_io([&] {
    // "runs/x/" names the same folder as "runs/x".
    const auto normal = fs::absolute(final_path_in).lexically_normal();
    const fs::path final_path = normal.has_filename() ? normal : normal.parent_path();
    const fs::path parent = final_path.parent_path();
    const std::string name = final_path.filename().string();
    fs::create_directories(parent);
    for (const auto& entry : fs::directory_iterator(parent)) {
      const auto leftover = Unfinished::parse(entry.path().filename().string(), name);
      if (leftover && !leftover->alive()) fs::remove_all(entry.path());
    }

    const fs::path temporary = parent / Unfinished{name, host_name(), ::getpid()}.name();
    fs::remove_all(temporary);  // of an earlier process with our number
    fs::create_directory(temporary);
    try {
      fill(temporary.string());
      write_manifest(temporary.string(), sum_and_sync(temporary.string()));
      put_in_place(temporary.string(), final_path.string());
    } catch (...) {
      std::error_code ignored;  // the first error is the one to tell
      fs::remove_all(temporary, ignored);
      throw;
    }
  });
}

void verify_folder(const std::string& path) {
  told_as_io([&] {
    if (!fs::is_directory(path)) fail(ErrorCode::io, "cannot read {}: there is no such folder", path);
    for (const auto& entry : read_manifest(path)) {
      const fs::path file = fs::path(path) / entry.path;
      if (!fs::is_regular_file(file)) fail(ErrorCode::corrupt_data, "{} is missing", file.string());
      if (const auto size = fs::file_size(file); size != entry.size)
        fail(ErrorCode::corrupt_data, "{} has {} bytes, {} were written", file.string(), size, entry.size);
      if (checksum_of_file(file.string()) != entry.xxh3_64)
        fail(ErrorCode::corrupt_data, "{} is not what was written: its checksum differs", file.string());
    }
  });
}

std::optional<std::string> latest(const std::string& checkpoints_folder) {
  return told_as_io([&]() -> std::optional<std::string> {
    for (const auto& [step, path] : step_folders(checkpoints_folder)) {
      const std::string why = incompleteness(path);
      if (why.empty()) return path;
      log::warn("skipping checkpoint {}: {}", path, why);
    }
    return std::nullopt;
  });
}

std::string step_folder(const std::string& checkpoints_folder, int64_t step) {
  return (fs::path(checkpoints_folder) / fmt::format("{}{}", kStep, step)).string();
}

void prune(const std::string& checkpoints_folder, int64_t keep) {
  told_as_io([&] {
    if (!fs::exists(checkpoints_folder)) return;
    for (const auto& entry : fs::directory_iterator(checkpoints_folder)) {
      const auto leftover = Unfinished::parse(entry.path().filename().string(), "");
      if (leftover && !leftover->alive()) fs::remove_all(entry.path());
    }
    if (keep <= 0) return;
    std::vector<std::string> complete;  // newest first
    for (const auto& [step, path] : step_folders(checkpoints_folder))
      if (incompleteness(path).empty()) complete.push_back(path);
    while (static_cast<int64_t>(complete.size()) > keep) {
      // Renamed first: half a deletion must not look like a checkpoint.
      const std::string path = complete.back();
      const std::string doomed =
          (fs::path(path).parent_path() /
           Unfinished{fs::path(path).filename().string(), host_name(), ::getpid()}.name())
              .string();
      if (std::rename(path.c_str(), doomed.c_str()) != 0) fail_rename(path, doomed);
      fs::remove_all(doomed);
      complete.pop_back();
    }
  });
}

}  // namespace trireme::checkpoint
