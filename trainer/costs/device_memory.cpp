#include "trainer/costs/device_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>

#include "runtime/base/error.h"

namespace trireme::costs {
namespace {

int64_t machine_bytes(const std::string& root) {
  std::ifstream file(root + "/proc/meminfo");
  std::string name;
  for (int64_t kib = 0; file >> name >> kib; file.ignore(1 << 10, '\n'))
    if (name == "MemTotal:") return kib * 1024;
  fail(ErrorCode::io, "{}/proc/meminfo names no MemTotal", root);
}

/// The limit in a file of a control group; "max" and a missing file are none.
std::optional<int64_t> limit_in(const std::string& path) {
  std::ifstream file(path);
  int64_t bytes = 0;
  if (file >> bytes) return bytes;
  return std::nullopt;
}

/// The least limit of a group and of those around it.
int64_t least_limit(const std::string& mount, std::string group, const char* file, int64_t least) {
  while (true) {
    if (group == "/") group.clear();
    least = std::min(least, limit_in(mount + group + "/" + file).value_or(least));
    if (group.empty()) return least;
    group.resize(group.find_last_of('/'));
  }
}

}  // namespace

int64_t resident_bytes(const std::string& root) {
  std::ifstream file(root + "/proc/self/statm");
  int64_t size = 0, resident = 0;
  if (!(file >> size >> resident)) fail(ErrorCode::io, "{}/proc/self/statm cannot be read", root);
  return resident * ::sysconf(_SC_PAGESIZE);
}

DeviceMemory host_memory(int64_t ranks_on_host, const std::string& root) {
  int64_t total = machine_bytes(root);
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "0::/a/b", in version 1 "5:memory:/a/b"
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1),
                      group = line.substr(second + 1);
    if (group.empty() || group[0] != '/') continue;
    const std::string mount = root + "/sys/fs/cgroup";
    if (controllers.empty()) total = least_limit(mount, group, "memory.max", total);
    if (controllers == "memory")
      total = least_limit(mount + "/memory", group, "memory.limit_in_bytes", total);
  }
  return {total / std::max<int64_t>(1, ranks_on_host), resident_bytes(root)};
}

}  // namespace trireme::costs
