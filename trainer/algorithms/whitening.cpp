#include <algorithm>
#include <cmath>

#include "trainer/algorithms/estimators.h"

namespace trireme::algorithms {

BatchStatistics statistics_of(int64_t group, std::span<const Trajectory> trajectories) {
  BatchStatistics result;
  result.group = group;
  double sum = 0.0;
  for (const Trajectory& one : trajectories) {
    ++result.samples;
    if (one.reward != 0.0) ++result.nonzero_rewards;
    for (size_t t = 0; t < one.mask.size(); ++t)
      if (one.mask[t]) {
        ++result.tokens;
        sum += one.advantages[t];
      }
  }
  if (result.tokens > 0) result.mean = sum / static_cast<double>(result.tokens);
  for (const Trajectory& one : trajectories)
    for (size_t t = 0; t < one.mask.size(); ++t)
      if (one.mask[t])
        result.squares += (one.advantages[t] - result.mean) * (one.advantages[t] - result.mean);
  return result;
}

// Means and squares of parts to those of the whole: Chan, Golub and LeVeque 1979.
BatchStatistics merge(std::vector<BatchStatistics> groups) {
  std::sort(groups.begin(), groups.end(),
            [](const BatchStatistics& a, const BatchStatistics& b) { return a.group < b.group; });
  BatchStatistics all;
  for (const BatchStatistics& one : groups) {
    all.samples += one.samples;
    all.nonzero_rewards += one.nonzero_rewards;
    if (one.tokens == 0) continue;
    const double apart = one.mean - all.mean;
    const auto before = static_cast<double>(all.tokens), more = static_cast<double>(one.tokens);
    all.mean += apart * more / (before + more);
    all.squares += one.squares + apart * apart * before * more / (before + more);
    all.tokens += one.tokens;
  }
  return all;
}

void whiten(std::span<Trajectory> group, const BatchStatistics& batch) {
  if (batch.tokens < 2) return;
  const double scale = 1.0 / std::sqrt(batch.squares / static_cast<double>(batch.tokens - 1) + 1e-8);
  for (Trajectory& one : group)
    for (size_t t = 0; t < one.mask.size(); ++t)
      if (one.mask[t]) one.advantages[t] = (one.advantages[t] - batch.mean) * scale;
}

}  // namespace trireme::algorithms
