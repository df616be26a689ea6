#include "trainer/algorithms/advantages.h"

#include <cmath>
#include <numeric>

namespace trireme::algorithms {

std::vector<double> grpo_advantages(std::span<const double> rewards, bool norm_by_std) {
  const auto n = static_cast<double>(rewards.size());
  double mean = 0.0, std = 1.0;
  if (rewards.size() > 1) {
    mean = std::accumulate(rewards.begin(), rewards.end(), 0.0) / n;
    double squares = 0.0;
    for (const double reward : rewards) squares += (reward - mean) * (reward - mean);
    std = std::sqrt(squares / (n - 1.0));
  }
  std::vector<double> advantages;
  advantages.reserve(rewards.size());
  for (const double reward : rewards)
    advantages.push_back(norm_by_std ? (reward - mean) / (std + 1e-6) : reward - mean);
  return advantages;
}

}  // namespace trireme::algorithms
