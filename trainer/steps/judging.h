// A batch's responses, judged as they finish: while others are still generated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/data/problem.h"
#include "trainer/rewards/scorer.h"
#include "trainer/steps/step_context.h"
#include "trainer/steps/step_metrics.h"

namespace trireme::steps {

class Judging {
 public:
  /// Of `count` responses of a step. On rollout ranks; those of a replica have the same responses, and the
  /// first of them has the scorer.
  Judging(StepContext& context, int64_t step, size_t count);

  /// Response `place`, to `problem`. `name` is its own within the step, on whatever rank it is made. Does not
  /// wait for the judgement.
  void hand_in(size_t place, std::string name, const data::Problem& problem,
               std::span<const int32_t> response);

  // Before that, on the rank that has the scorer, of a response that was handed in:
  /// whether score() would return at once;
  bool is_judged(size_t place) const;
  /// its judgement; waits for it. Throws what Scorer::wait throws.
  const rewards::Score& score(size_t place);

  /// By place, once all are handed in. Records reward/NAME/mean of what else the reward function had to say,
  /// and its failures. Collective over: the ranks of the replica. Throws what Scorer::wait throws.
  std::vector<rewards::Score> scores(StepMetrics& metrics);

 private:
  StepContext& context_;
  int64_t step_;
  std::vector<int64_t> tickets_;
  std::vector<std::optional<rewards::Score>> scores_;  // those that were waited for
};

}  // namespace trireme::steps
