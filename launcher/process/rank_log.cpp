#include "launcher/process/rank_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "runtime/base/error.h"

namespace trireme::process {
namespace {

constexpr size_t kLongestLine = 64 * 1024;

}  // namespace

std::string rank_log_path(const std::string& run_dir, int rank) {
  return fmt::format("{}/logs/rank-{}.log", run_dir, rank);
}

RankLog::RankLog(const std::string& run_dir, int rank, int attempt)
    : fd_(::open(rank_log_path(run_dir, rank).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {
  if (fd_ < 0) fail(ErrorCode::io, "cannot write {}: {}", rank_log_path(run_dir, rank), std::strerror(errno));
  std::vector<std::string> heading{fmt::format("--- started again: attempt {} ---", attempt)};
  if (attempt > 0) write(heading);
}

RankLog::~RankLog() {
  ::close(fd_);
}

std::vector<std::string> RankLog::add(int stream, const char* data, size_t size) {
  std::vector<std::string> lines;
  const auto take = [&](std::string line) {
    if (line.ends_with('\r')) line.pop_back();
    lines.push_back(std::move(line));
  };
  streams_[stream].feed(data, size, take);
  if (streams_[stream].pending().size() > kLongestLine) take(streams_[stream].take_pending());
  write(lines);
  return lines;
}

std::vector<std::string> RankLog::rest(int stream) {
  std::vector<std::string> lines;
  if (!streams_[stream].pending().empty()) lines.push_back(streams_[stream].take_pending());
  write(lines);
  return lines;
}

void RankLog::write(std::vector<std::string>& lines) {
  if (broken_) return;
  std::string text;
  for (const auto& line : lines) text.append(line).push_back('\n');
  for (size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(fd_, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      broken_ = true;
      lines.push_back(
          fmt::format("trireme: this rank's log ends here, it cannot be written: {}", std::strerror(errno)));
      return;
    }
    done += static_cast<size_t>(n);
  }
}

std::vector<std::string> last_lines(const std::string& path, size_t count) {
  constexpr std::streamoff kTail = 64 * 1024;
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) return {};
  const std::streamoff size = in.tellg();
  in.seekg(std::max<std::streamoff>(0, size - kTail));
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  if (lines.size() > count) lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(count));
  return lines;
}

}  // namespace trireme::process
