// What judges outside of this program said, kept so that a replay hears the same: a call may time out, or a
// service answer otherwise the next time. One file for each step and rank, JSON lines. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "trainer/rewards/score.h"

namespace trireme::rewards {

/// Which judgement, whatever rank asks for it: a step's, of a response that `name` names within the step.
struct JudgementKey {
  int64_t step = -1;  // below 0: it is not journaled
  std::string name;
};

class Journal {
 public:
  /// Writes to `folder` as `writer` (unique among the run's ranks), and reads what any writer left in `source`.
  Journal(std::string folder, std::string source, std::string writer);

  /// What was said of this very response; nothing if it was not asked for, or was another one.
  /// Throws io if a file cannot be read.
  std::optional<Score> find(const JudgementKey& key, const std::string& response);
  void record(const JudgementKey& key, const std::string& response, const Score& score);
  /// What was recorded is in the files from here on. Throws io.
  void flush();

 private:
  struct Entry {
    std::string response;  // its hash
    Score score;
  };
  void read(int64_t step);

  const std::string folder_, source_, writer_;
  int64_t read_step_ = -1;
  std::map<std::string, Entry> entries_;      // of read_step_
  std::map<int64_t, std::string> unwritten_;  // lines, by step
};

}  // namespace trireme::rewards
