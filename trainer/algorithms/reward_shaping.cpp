#include "trainer/algorithms/reward_shaping.h"

#include <algorithm>

namespace trireme::algorithms {

double overlong_penalty(int64_t length, int64_t max_response_length, const OverlongBuffer& config) {
  if (!config.enable) return 0.0;
  const int64_t beyond = length - (max_response_length - config.len);
  return std::min(0.0,
                  -static_cast<double>(beyond) / static_cast<double>(config.len) * config.penalty_factor);
}

bool tells_apart(std::span<const double> judgements) {
  return judgements.size() == 1 ||
         std::any_of(judgements.begin(), judgements.end(), [&](double one) { return one != judgements[0]; });
}

}  // namespace trireme::algorithms
