#include "launcher/process/kernel_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <string_view>

#include "runtime/base/error.h"

namespace trireme::process {
namespace {

constexpr size_t kMostLines = 10;

// A line that holds both.
struct Pattern {
  std::string_view first, second;
};
constexpr std::array<Pattern, 13> kPatterns{{{"NVRM: Xid", ""},
                                             {"SXid", "nvidia-nvswitch"},
                                             {"Out of memory: Killed process", ""},
                                             {"Memory cgroup out of memory: Killed process", ""},
                                             {"amdgpu", "GPU reset"},
                                             {"amdgpu", "timeout"},
                                             {"amdgpu", "uncorrectable"},
                                             {"amdgpu", "page fault"},
                                             {"mlx5", "health"},
                                             {"mlx5", "Link down"},
                                             {"mlx5", "Port module event"},
                                             {"[Hardware Error]", ""},
                                             {"blocked for more than", "seconds"}}};

struct Xid {
  int number;
  std::string_view meaning;
};
constexpr std::array<Xid, 19> kXids{
    {{13, "the program: an exception in a kernel, often an index out of bounds"},
     {31, "the program: an access to memory that is not mapped"},
     {43, "the GPU stopped this program after an error of its own"},
     {45, "the program's channels were removed, as a consequence of another error or of its end"},
     {46, "the GPU stopped processing; it has to be reset"},
     {48, "memory: an error that ECC cannot correct; the GPU has to be reset"},
     {62, "firmware: the GPU has to be reset"},
     {63, "memory: a row is to be replaced at the next reset"},
     {64, "memory: a row could not be replaced; the GPU has to be exchanged"},
     {74, "NVLink: an error on a link; look at the cables, the bridge, the other GPU"},
     {79, "the GPU has fallen off the bus: power, heat or the slot; the host has to be started anew"},
     {92, "memory: many errors that ECC corrected"},
     {94, "memory: an error that ECC cannot correct; only this program is concerned"},
     {95, "memory: an error that ECC cannot correct; the GPU has to be reset"},
     {109, "the GPU did not switch contexts in time"},
     {119, "firmware (GSP) does not answer; the GPU has to be reset"},
     {120, "firmware (GSP) failed; the GPU has to be reset"},
     {140, "memory: an error that ECC cannot correct, outside of any program"},
     {154, "the driver says what to do about an earlier error"}}};

bool matters(std::string_view text) {
  return std::any_of(kPatterns.begin(), kPatterns.end(), [&](const Pattern& pattern) {
    return text.find(pattern.first) != text.npos && text.find(pattern.second) != text.npos;
  });
}

// "NVRM: Xid (PCI:0000:3b:00): 79, pid=..."; 0 if it is none.
int xid_of(std::string_view text) {
  const auto at = text.find("NVRM: Xid");
  const auto end = at == text.npos ? at : text.find("): ", at);
  int number = 0;
  if (end != text.npos) std::from_chars(text.data() + end + 3, text.data() + text.size(), number);
  return number;
}

std::string explained(std::string_view text) {
  std::string line(text);
  const int number = xid_of(text);
  for (const auto& xid : kXids)
    if (xid.number == number) line += fmt::format(" [Xid {}: {}]", number, xid.meaning);
  return line;
}

}  // namespace

std::vector<std::string> kernel_findings(const std::vector<std::string>& records, int64_t since_us) {
  std::vector<std::string> found;
  for (const std::string_view record : records) {
    const auto begin = record.find(';');
    if (begin == record.npos) continue;
    // "priority,number,microseconds,flags"
    const auto second = record.find(',', record.find(',') + 1);
    int64_t at_us = 0;
    if (second == record.npos || second > begin) continue;
    std::from_chars(record.data() + second + 1, record.data() + begin, at_us);
    const auto text = record.substr(begin + 1, record.find('\n', begin) - begin - 1);
    if (at_us >= since_us && matters(text)) found.push_back(explained(text));
  }
  if (found.size() > kMostLines)
    found.erase(found.begin(), found.end() - static_cast<std::ptrdiff_t>(kMostLines));
  return found;
}

std::vector<std::string> kernel_findings_since(int64_t since_ns) {
  const int fd = ::open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return {};
  std::vector<std::string> records;
  std::array<char, 8192> record{};
  for (;;) {
    const ssize_t size = ::read(fd, record.data(), record.size());
    if (size > 0)
      records.emplace_back(record.data(), static_cast<size_t>(size));
    else if (size == 0 || (errno != EPIPE && errno != EINTR))  // EPIPE: records were overwritten meanwhile
      break;
  }
  ::close(fd);
  return kernel_findings(records, since_ns / 1000);
}

}  // namespace trireme::process
