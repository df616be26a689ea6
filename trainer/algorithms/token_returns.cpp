#include "trainer/algorithms/estimators.h"

namespace trireme::algorithms {

void reinforce_plus_plus(std::span<Trajectory> group, const AlgorithmConfig& config) {
  for (Trajectory& one : group) {
    one.returns.assign(one.rewards.size(), 0.0);
    double to_come = 0.0;
    for (size_t t = one.rewards.size(); t-- > 0;)
      if (one.mask[t]) one.returns[t] = to_come = one.rewards[t] + config.gamma * to_come;
    one.advantages = one.returns;
  }
}

void remax(std::span<Trajectory> group, const AlgorithmConfig&) {
  for (Trajectory& one : group) {
    one.returns.assign(one.rewards.size(), 0.0);
    one.advantages.assign(one.rewards.size(), 0.0);
    double to_come = 0.0;
    for (size_t t = one.rewards.size(); t-- > 0;) {
      if (!one.mask[t]) continue;
      one.returns[t] = to_come += one.rewards[t];
      one.advantages[t] = to_come - one.greedy_reward;
    }
  }
}

void gae(std::span<Trajectory> group, const AlgorithmConfig& config) {
  for (Trajectory& one : group) {
    one.advantages.assign(one.rewards.size(), 0.0);
    one.returns.assign(one.rewards.size(), 0.0);
    double next_value = 0.0, advantage = 0.0;
    for (size_t t = one.rewards.size(); t-- > 0;) {
      if (!one.mask[t]) continue;
      const double delta = one.rewards[t] + config.gamma * next_value - one.values[t];
      one.advantages[t] = advantage = delta + config.gamma * config.lam * advantage;
      one.returns[t] = advantage + one.values[t];
      next_value = one.values[t];
    }
  }
}

}  // namespace trireme::algorithms
