#include <algorithm>
#include <cmath>
#include <functional>

#include "trainer/algorithms/estimators.h"

namespace trireme::algorithms {
namespace {

constexpr double kSmall = 1e-6;  // verl's epsilon beside a group's deviation

double mean_reward(std::span<const Trajectory> group) {
  double sum = 0.0;
  for (const Trajectory& one : group) sum += one.reward;
  return sum / static_cast<double>(group.size());
}

// Unbiased; of two responses or more.
double deviation(std::span<const Trajectory> group) {
  const double mean = mean_reward(group);
  double squares = 0.0;
  for (const Trajectory& one : group) squares += (one.reward - mean) * (one.reward - mean);
  return std::sqrt(squares / static_cast<double>(group.size() - 1));
}

// What a group is compared with; a lone response is compared with nothing.
double baseline(std::span<const Trajectory> group) {
  return group.size() > 1 ? mean_reward(group) : 0.0;
}

// One number for all tokens of a response.
void give(std::span<Trajectory> group, const std::function<double(const Trajectory&)>& advantage) {
  std::vector<double> values;
  for (const Trajectory& one : group) values.push_back(advantage(one));
  for (size_t i = 0; i < group.size(); ++i) {
    Trajectory& one = group[i];
    one.advantages.assign(one.mask.size(), 0.0);
    for (size_t t = 0; t < one.mask.size(); ++t)
      if (one.mask[t]) one.advantages[t] = values[i];
    one.returns = one.advantages;
  }
}

void less_mean(std::span<Trajectory> group) {
  const double mean = baseline(group);
  give(group, [&](const Trajectory& one) { return one.reward - mean; });
}

}  // namespace

void grpo(std::span<Trajectory> group, const AlgorithmConfig& config) {
  if (!config.norm_adv_by_std_in_grpo) return less_mean(group);
  const double mean = baseline(group), scale = (group.size() > 1 ? deviation(group) : 1.0) + kSmall;
  give(group, [&](const Trajectory& one) { return (one.reward - mean) / scale; });
}

void dr_grpo(std::span<Trajectory> group, const AlgorithmConfig&) {
  less_mean(group);
}

void rloo(std::span<Trajectory> group, const AlgorithmConfig&) {
  const auto n = static_cast<double>(group.size());
  const double mean = baseline(group), scale = group.size() > 1 ? n / (n - 1.0) : 1.0;
  give(group, [&](const Trajectory& one) { return scale * (one.reward - mean); });
}

void opo(std::span<Trajectory> group, const AlgorithmConfig&) {
  double rewards = 0.0, tokens = 0.0;
  for (const Trajectory& one : group) {
    const auto length = static_cast<double>(std::count(one.mask.begin(), one.mask.end(), 1));
    rewards += length * one.reward;
    tokens += length;
  }
  const double weighted = group.size() > 1 && tokens > 0 ? rewards / tokens : 0.0;
  give(group, [&](const Trajectory& one) { return one.reward - weighted; });
}

void grpo_passk(std::span<Trajectory> group, const AlgorithmConfig& config) {
  const Trajectory* best = nullptr;
  double lead = 0.0;
  if (group.size() > 1) {
    best = &*std::max_element(group.begin(), group.end(),
                              [](const Trajectory& a, const Trajectory& b) { return a.reward < b.reward; });
    double second = -INFINITY;
    for (const Trajectory& one : group)
      if (&one != best) second = std::max(second, one.reward);
    lead = best->reward - second;
    if (config.norm_adv_by_std_in_grpo) lead /= deviation(group) + kSmall;
  }
  give(group, [&](const Trajectory& one) { return &one == best ? lead : 0.0; });
}

void gpg(std::span<Trajectory> group, const AlgorithmConfig&) {
  less_mean(group);
}

void scale_by_nonzero(std::span<Trajectory> group, const BatchStatistics& batch) {
  const double scale =
      static_cast<double>(batch.samples) / static_cast<double>(std::max<int64_t>(1, batch.nonzero_rewards));
  for (Trajectory& one : group) {
    for (double& advantage : one.advantages) advantage *= scale;
    one.returns = one.advantages;
  }
}

void reinforce_plus_plus_baseline(std::span<Trajectory> group, const AlgorithmConfig&) {
  less_mean(group);
}

}  // namespace trireme::algorithms
