#include "launcher/process/failure_text.h"

#include <csignal>
#include <filesystem>
#include <fstream>

#include "launcher/process/rank_log.h"

namespace trireme::process {
namespace {

constexpr size_t kLines = 20;

// Log lines may hold any byte: none of them may move the cursor or colour what follows.
std::string printable(const std::string& line) {
  std::string text;
  for (const char c : line)
    if (static_cast<unsigned char>(c) >= 0x20 || c == '\t') text += c;
  return text;
}

std::string relative(const std::string& path) {
  std::error_code error;
  const auto shorter = std::filesystem::proximate(path, error).string();
  return error || shorter.size() > path.size() ? path : shorter;
}

std::string quoted(const std::vector<std::string>& lines) {
  std::string text;
  for (const auto& line : lines) text += "\n  | " + printable(line);
  return text;
}

}  // namespace

std::string failure_text(const Failure& failure, const RankRecord& record, int num_ranks,
                         const std::string& log) {
  const auto& page = record.exit ? record.exit->page : record.page;
  std::string text = fmt::format("trireme: rank {} of {} on {} {}{}", failure.rank, num_ranks, record.host,
                                 failure.explained ? "failed: " : "", failure.what);
  if (!page.phase.empty()) {
    text += fmt::format("\n  in {}", page.phase);
    if (page.total_steps > 0) text += fmt::format(", after step {} of {}", page.step, page.total_steps);
    if (!page.stage.empty()) text += fmt::format(", in stage {}", page.stage);
    for (const auto& collective : page.collectives)
      if (collective.running)
        text += fmt::format(", in {} #{} of '{}' ({}, {} elements)", collective.op, collective.seq,
                            collective.communicator, collective.dtype, collective.count);
  }
  if (!record.nccl.empty()) text += "\n  what NCCL says of it:" + quoted(record.nccl);
  const bool kernel_says = record.exit && !record.exit->kernel.empty();
  if (kernel_says)
    text +=
        fmt::format("\n  what the kernel of {} wrote meanwhile:", record.host) + quoted(record.exit->kernel);
  if (record.exit && record.exit->signaled && record.exit->status == SIGKILL && !failure.explained &&
      !kernel_says)
    text += "\n  if nobody did that, it was the kernel, for lack of memory: `dmesg | tail` tells";
  if (!failure.explained) {
    // Its guard saw the file, which may not be shared with this host.
    auto lines = record.exit ? record.exit->last_lines : last_lines(log, kLines);
    if (lines.empty()) lines = last_lines(log, kLines);
    text += lines.empty() ? "\n  it wrote nothing to its log" : "\n  the end of its log:" + quoted(lines);
  }
  return text + fmt::format("\n  log: {}", relative(log));
}

std::string trouble_text(const std::string& what, const backends::Backend& backend, const std::string& log,
                         off_t offset) {
  std::ifstream in(log, std::ios::binary);
  in.seekg(offset);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);)
    if (!backend.is_noise(line)) lines.push_back(line);
  if (lines.size() > kLines) lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(kLines));
  std::string text = "trireme: " + what;
  if (!lines.empty()) text += fmt::format("\n  what {} said:", backend.name()) + quoted(lines);
  return text + fmt::format("\n  log: {}", relative(log));
}

}  // namespace trireme::process
