#include "runtime/checkpoint/manifest.h"

#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <memory>

#include <nlohmann/json.hpp>

#include "runtime/base/error.h"
#include "runtime/base/files.h"

namespace trireme::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr int kVersion = 1;
constexpr size_t kReadBytes = size_t{1} << 20;

class OpenFile {
 public:
  explicit OpenFile(const std::string& path) : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (fd_ < 0) fail_io("read");
  }
  ~OpenFile() { ::close(fd_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  uint64_t checksum() const {
    const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), XXH3_freeState);
    XXH3_64bits_reset(state.get());
    std::vector<char> buffer(kReadBytes);
    while (true) {
      const ssize_t n = ::read(fd_, buffer.data(), buffer.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail_io("read");
      if (n == 0) return XXH3_64bits_digest(state.get());
      XXH3_64bits_update(state.get(), buffer.data(), static_cast<size_t>(n));
    }
  }
  void sync() const {
    if (::fsync(fd_) != 0) fail_io("sync");
  }

 private:
  [[noreturn]] void fail_io(const char* verb) const {
    fail(ErrorCode::io, "cannot {} {}: {}", verb, path_, std::strerror(errno));
  }
  std::string path_;
  int fd_;
};

ManifestEntry parse_entry(const std::string& manifest, const nlohmann::json& value) {
  const auto refuse = [&] {
    fail(ErrorCode::corrupt_data, "{}: {} is no entry of a manifest", manifest, value.dump());
  };
  if (!value.is_object() || !value.contains("path") || !value["path"].is_string() ||
      !value.contains("size") || !value["size"].is_number_unsigned() || !value.contains("xxh3_64") ||
      !value["xxh3_64"].is_string())
    refuse();
  ManifestEntry entry{value["path"].get<std::string>(), value["size"].get<uint64_t>(), 0};
  const fs::path path(entry.path);
  if (path.empty() || path.is_absolute() || std::ranges::find(path, fs::path("..")) != path.end()) refuse();
  const auto sum = value["xxh3_64"].get<std::string>();
  const auto [end, error] = std::from_chars(sum.data(), sum.data() + sum.size(), entry.xxh3_64, 16);
  if (error != std::errc() || end != sum.data() + sum.size() || sum.size() != 16) refuse();
  return entry;
}

}  // namespace

uint64_t checksum_of_file(const std::string& path) {
  return OpenFile(path).checksum();
}

std::vector<ManifestEntry> sum_and_sync(const std::string& folder) {
  std::vector<ManifestEntry> entries;
  std::vector<std::string> folders{folder};
  for (const auto& found : fs::recursive_directory_iterator(folder)) {
    const std::string path = found.path().string();
    if (found.is_symlink() || !(found.is_regular_file() || found.is_directory()))
      fail(ErrorCode::internal, "{} is neither a file nor a folder: a checkpoint cannot hold it", path);
    if (found.is_directory()) {
      folders.push_back(path);
      continue;
    }
    const OpenFile file(path);
    entries.push_back(
        {found.path().lexically_relative(folder).generic_string(), found.file_size(), file.checksum()});
    file.sync();
  }
  for (const auto& path : folders) files::sync_folder(path);
  std::ranges::sort(entries, {}, &ManifestEntry::path);
  return entries;
}

void write_manifest(const std::string& folder, const std::vector<ManifestEntry>& entries) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& entry : entries)
    list.push_back(nlohmann::ordered_json{
        {"path", entry.path}, {"size", entry.size}, {"xxh3_64", fmt::format("{:016x}", entry.xxh3_64)}});
  const nlohmann::ordered_json manifest{{"version", kVersion}, {"files", std::move(list)}};
  files::write_atomically((fs::path(folder) / kManifestFile).string(), manifest.dump(1) + "\n");
}

std::vector<ManifestEntry> read_manifest(const std::string& folder) {
  const std::string path = (fs::path(folder) / kManifestFile).string();
  if (!fs::exists(path))
    fail(ErrorCode::corrupt_data, "{} has no {}: it is not a complete checkpoint", folder, kManifestFile);
  nlohmann::json manifest;
  try {
    manifest = nlohmann::json::parse(files::read(path));
  } catch (const nlohmann::json::parse_error& error) {  // its text quotes bytes that may be no text
    fail(ErrorCode::corrupt_data, "{} is not valid JSON: see byte {}", path, error.byte);
  } catch (const nlohmann::json::exception&) {
    fail(ErrorCode::corrupt_data, "{} is not valid JSON: a number is too large", path);
  }
  if (!manifest.is_object() || manifest.value("version", nlohmann::json()) != kVersion ||
      !manifest.contains("files") || !manifest["files"].is_array())
    fail(ErrorCode::corrupt_data, "{} is no manifest of version {}", path, kVersion);
  std::vector<ManifestEntry> entries;
  for (const auto& value : manifest["files"]) entries.push_back(parse_entry(path, value));
  return entries;
}

}  // namespace trireme::checkpoint
