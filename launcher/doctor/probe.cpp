#include "launcher/doctor/probe.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "launcher/doctor/gpu_state.h"
#include "launcher/process/kernel_log.h"
#include "runtime/base/error.h"

namespace trireme::doctor {
namespace {

namespace fs = std::filesystem;

// What a command of ours prints on its standard output; "" if it does not exist, or does not end in 20 s.
std::string said_by(const std::string& command) {
  FILE* pipe = ::popen(("exec timeout -k 1 20 " + command + " 2>/dev/null").c_str(), "re");
  if (!pipe) return "";
  std::string text;
  std::array<char, 4096> chunk{};
  while (std::fgets(chunk.data(), chunk.size(), pipe)) text += chunk.data();
  return ::pclose(pipe) == 0 ? text : "";
}

std::string quoted(const std::string& path) {
  std::string text = "'";
  for (const char c : path) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

// FNV-1a: tells one build from another, no more.
std::string sum_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  uint64_t sum = 14695981039346656037U;
  std::array<char, 1 << 16> chunk{};
  while (in.read(chunk.data(), chunk.size()) || in.gcount() > 0)
    for (std::streamsize i = 0; i + 8 <= in.gcount(); i += 8) {
      uint64_t word = 0;
      std::memcpy(&word, chunk.data() + i, sizeof(word));
      sum = (sum ^ word) * 1099511628211U;
    }
  return fmt::format("{:016x}", sum);
}

// `trireme-trainer --version`: "trireme-trainer 0.1.0", then "torch: 2.11.0" and the like.
std::map<std::string, std::string> versions_of(const std::string& trainer) {
  std::map<std::string, std::string> versions;
  std::istringstream lines(said_by(quoted(trainer) + " --version"));
  for (std::string line; std::getline(lines, line);) {
    const auto colon = line.find(": ");
    const auto at = colon == std::string::npos ? line.find(' ') : colon;
    if (at != std::string::npos)
      versions[line.substr(0, at)] = line.substr(at + (colon == std::string::npos ? 1 : 2));
  }
  if (versions.empty()) versions["trireme-trainer"] = "does not start";
  versions["build of trireme"] = sum_of("/proc/self/exe");
  versions["build of trireme-trainer"] = sum_of(trainer);
  return versions;
}

// Why a file cannot be read, or a folder's files; "" if they can.
std::string why_unreadable(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    bool any = false;
    for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
      any = true;
      if (!it->is_regular_file(error)) continue;
      if (const auto why = why_unreadable(it->path()); !why.empty())
        return it->path().filename().string() + ": " + why;
    }
    if (error) return error.message();
    return any ? "" : "the folder is empty";
  }
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::strerror(errno);
  char byte = 0;
  const ssize_t size = ::read(fd, &byte, 1);
  const int reason = errno;
  ::close(fd);
  return size < 0 ? std::strerror(reason) : "";
}

Probe::Folder try_folder(const ProbeRequest& request) {
  Probe::Folder folder;
  const fs::path place = existing_folder(request.folder);
  folder.sees_token = request.token.empty() || fs::exists(place / request.token);
  struct statvfs space {};
  if (::statvfs(place.c_str(), &space) == 0)
    folder.free_bytes = static_cast<int64_t>(space.f_bavail) * static_cast<int64_t>(space.f_frsize);
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  const auto file = place / fmt::format(".trireme-doctor-{}-{}", host.data(), ::getpid());
  const auto began = std::chrono::steady_clock::now();
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const std::vector<char> chunk(1 << 20, 'x');
  bool good = fd >= 0;
  for (int64_t left = request.write_bytes; good && left > 0;) {
    const ssize_t size = ::write(fd, chunk.data(), std::min<int64_t>(left, chunk.size()));
    good = size > 0;
    left -= size;
  }
  good = good && ::fdatasync(fd) == 0;
  if (!good) folder.error = std::strerror(errno);
  folder.write_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  if (fd >= 0) ::close(fd);
  ::unlink(file.c_str());
  return folder;
}

// What a process of a run opens: there, and not to be opened, is a container's or a group's mistake.
std::map<std::string, std::string> closed_devices() {
  std::map<std::string, std::string> closed;
  std::error_code error;
  for (const char* folder : {"/dev", "/dev/infiniband", "/dev/dri"})
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
      const auto name = it->path().filename().string();
      const bool wanted = name == "kfd" || name == "rdma_cm" || name.starts_with("nvidia") ||
                          name.starts_with("uverbs") || name.starts_with("renderD");
      if (!wanted || name.starts_with("nvidia-caps") || name == "nvidia-modeset" || !it->is_character_file())
        continue;
      const int fd = ::open(it->path().c_str(), O_RDWR | O_CLOEXEC);
      if (fd < 0) closed[it->path()] = std::strerror(errno);
      if (fd >= 0) ::close(fd);
    }
  return closed;
}

// Memory that ran out concerns earlier programs.
std::vector<std::string> hardware_trouble() {
  auto lines = process::kernel_findings_since(0);
  std::erase_if(lines, [](const std::string& line) {
    return line.find("ut of memory") != std::string::npos ||
           line.find("blocked for more than") != std::string::npos;
  });
  return lines;
}

}  // namespace

int64_t time_of_day_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

std::string existing_folder(const std::string& path) {
  fs::path folder(path);
  std::error_code error;
  while (!fs::is_directory(folder, error) && folder.has_relative_path()) folder = folder.parent_path();
  return folder;
}

Probe probe_this_host(const ProbeRequest& request) {
  Probe probe;
  probe.versions = versions_of(request.trainer);
  for (const auto& path : request.read)
    if (const auto why = why_unreadable(path); !why.empty()) probe.unreadable[path] = why;
  if (!request.folder.empty()) probe.folder = try_folder(request);
  probe.closed = closed_devices();
  probe.kernel = hardware_trouble();
  probe.gpus = said_by(nvidia_smi_command());
  struct statvfs space {};
  if (::statvfs("/dev/shm", &space) == 0) {
    probe.shared_memory_bytes = static_cast<int64_t>(space.f_blocks) * static_cast<int64_t>(space.f_frsize);
    probe.shared_memory_free = static_cast<int64_t>(space.f_bavail) * static_cast<int64_t>(space.f_frsize);
  }
  probe.clock_ns = time_of_day_ns();
  return probe;
}

}  // namespace trireme::doctor
