// The file that keeps what one rank writes: RUN/logs/rank-N.log, both streams, whole lines, in the order
// in which they came.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "runtime/plan/rank_report.h"

namespace trireme::process {

std::string rank_log_path(const std::string& run_dir, int rank);

class RankLog {
 public:
  /// Appends to the file, under a heading if `attempt` is not the first (0). Throws io.
  RankLog(const std::string& run_dir, int rank, int attempt);
  ~RankLog();
  RankLog(const RankLog&) = delete;
  RankLog& operator=(const RankLog&) = delete;

  /// `stream` 0: output, 1: error. Returns the lines that are complete now, as they went into the file.
  /// A line beyond 64 KiB is cut.
  std::vector<std::string> add(int stream, const char* data, size_t size);
  /// What was written without a line end.
  std::vector<std::string> rest(int stream);

 private:
  void write(std::vector<std::string>& lines);

  int fd_;
  bool broken_ = false;  // the disk is full, or worse: said once, then only the console is served
  std::array<plan::LineCutter, 2> streams_;
};

/// The last lines of a file, at most `count`; none if it cannot be read.
std::vector<std::string> last_lines(const std::string& path, size_t count);

}  // namespace trireme::process
