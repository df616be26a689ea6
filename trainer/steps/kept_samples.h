// The responses that rejection sampling fine-tuning has kept so far, by the problems that they answer.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/steps/group.h"

namespace trireme::steps {

class KeptSamples {
 public:
  struct Kept {
    int64_t problem = 0;  // place among the training problems
    std::vector<int32_t> response;
  };

  /// In the order in which they were kept, which is the same on all ranks.
  const std::vector<Kept>& all() const { return kept_; }
  /// Those of one problem.
  const std::set<std::vector<int32_t>>& of(int64_t problem) const;

  void add(const Group& group);
  void clear();

  /// A line of JSON for each, {"problem", "response"}, as checkpoints have it.
  std::string to_lines() const;
  /// Throws corrupt_data naming `where` on anything that to_lines() did not write for `num_problems`
  /// problems.
  static KeptSamples from_lines(std::string_view lines, int64_t num_problems, const std::string& where);

 private:
  void add(Kept kept);
  std::vector<Kept> kept_;
  std::map<int64_t, std::set<std::vector<int32_t>>> by_problem_;
};

}  // namespace trireme::steps
