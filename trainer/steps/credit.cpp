#include "trainer/steps/credit.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "trainer/algorithms/estimators.h"
#include "trainer/algorithms/value_fit.h"

namespace trireme::steps {

using algorithms::BatchStatistics;
using algorithms::Trajectory;

namespace {

struct GroupPart {  // of what the batch must know
  BatchStatistics statistics;
  double kl = 0.0;  // sum over responses of their mean per token
  algorithms::ValueFit fit;
};

// All ranks' parts, in order of groups.
std::vector<GroupPart> gather(const std::vector<GroupPart>& mine, comm::Communicator& replicas) {
  std::vector<GroupPart> all;
  for (const std::string& bytes : replicas.all_gather_strings(
           {reinterpret_cast<const char*>(mine.data()), mine.size() * sizeof(GroupPart)}))
    for (size_t at = 0; at < bytes.size(); at += sizeof(GroupPart))
      std::memcpy(&all.emplace_back(), bytes.data() + at, sizeof(GroupPart));
  std::sort(all.begin(), all.end(),
            [](const GroupPart& a, const GroupPart& b) { return a.statistics.group < b.statistics.group; });
  return all;
}

// Rewards by token: less KL everywhere, and the score on the last. Adds the KL's mean over tokens to `kl`.
Trajectory trajectory_of(Sample& sample, double greedy_score, const algorithms::AlgorithmConfig& config,
                         double coefficient, double& kl) {
  Trajectory result;
  const auto length = static_cast<size_t>(sample.length());
  result.rewards.assign(length, 0.0);
  result.mask.assign(length, 1);
  result.greedy_reward = greedy_score;
  result.values.assign(sample.values.begin(), sample.values.end());
  double whole = 0.0;
  if (config.use_kl_in_reward)
    for (size_t t = 0; t < length; ++t) {
      const double one =
          algorithms::kl_of_token(sample.before_updates()[t], sample.ref_log_probs[t], config.kl_penalty);
      whole += one;
      result.rewards[t] = -coefficient * one;
    }
  if (length > 0) {
    result.rewards.back() += sample.score;
    kl += whole / static_cast<double>(length);
  }
  sample.reward = result.reward = sample.score - coefficient * whole;
  return result;
}

void record(StepMetrics& metrics, const std::string& name, const std::vector<double>& values) {
  if (values.empty()) return;
  double sum = 0.0;
  for (const double value : values) sum += value;
  const auto count = static_cast<double>(values.size());
  metrics.mean(name + "/mean", sum / count, count);
  metrics.max(name + "/max", *std::max_element(values.begin(), values.end()));
  metrics.min(name + "/min", *std::min_element(values.begin(), values.end()));
}

}  // namespace

void assign_credit(std::vector<Group>& groups, const algorithms::AlgorithmConfig& config,
                   algorithms::KlController& controller, comm::Communicator& replicas, StepMetrics& metrics) {
  const algorithms::Estimator& estimator = algorithms::find_estimator(config.adv_estimator);
  const bool has_values = algorithms::needs_of(estimator.name).values;
  const double coefficient = config.use_kl_in_reward ? controller.coefficient() : 0.0;
  std::vector<std::vector<Trajectory>> trajectories;
  std::vector<GroupPart> mine;
  for (Group& group : groups) {
    GroupPart& part = mine.emplace_back();
    auto& of_group = trajectories.emplace_back();
    for (Sample& sample : group.samples) {
      of_group.push_back(trajectory_of(sample, group.greedy_score, config, coefficient, part.kl));
      metrics.spread("critic/score", sample.score);
      metrics.spread("critic/rewards", sample.reward);
      metrics.mean("critic/acc/mean", sample.correct ? 1.0 : 0.0);
    }
    estimator.of_group(of_group, config);
    part.statistics = algorithms::statistics_of(group.id, of_group);
    if (!has_values) continue;
    for (const Trajectory& one : of_group) part.fit.add(one);
  }

  if (estimator.over_batch || config.use_kl_in_reward) {
    double kl = 0.0;
    algorithms::ValueFit fit;
    std::vector<BatchStatistics> all;
    for (const GroupPart& part : gather(mine, replicas)) {
      all.push_back(part.statistics);
      kl += part.kl;
      fit.add(part.fit);
    }
    if (has_values) metrics.mean("critic/vf_explained_var", fit.explained_variance());
    const BatchStatistics batch = algorithms::merge(std::move(all));
    if (estimator.over_batch)
      for (auto& of_group : trajectories) estimator.over_batch(of_group, batch);
    if (config.use_kl_in_reward) {
      kl /= static_cast<double>(std::max<int64_t>(1, batch.samples));
      metrics.mean("actor/reward_kl_penalty", kl);
      metrics.mean("actor/reward_kl_penalty_coeff", coefficient);
      controller.update(kl, batch.samples);
    }
  }

  for (size_t g = 0; g < groups.size(); ++g)
    for (size_t i = 0; i < groups[g].samples.size(); ++i) {
      const Trajectory& one = trajectories[g][i];
      groups[g].samples[i].advantages.assign(one.advantages.begin(), one.advantages.end());
      record(metrics, "critic/advantages", one.advantages);
      record(metrics, "critic/returns", one.returns);
      if (!has_values) continue;
      groups[g].samples[i].returns.assign(one.returns.begin(), one.returns.end());
      record(metrics, "critic/values", one.values);
    }
}

void correct_rollout(std::vector<Group>& groups, const algorithms::RolloutCorrection& config,
                     std::span<const algorithms::Rejection> rejections, StepMetrics& metrics) {
  if (!config.is_on()) return;
  for (Group& group : groups)
    for (Sample& sample : group.samples) {
      const auto &old = sample.before_updates(), &sampled = sample.rollout_log_probs;
      sample.mask.assign(old.size(), 1);
      sample.importance = algorithms::importance_weights(old, sampled, sample.mask, config);
      algorithms::reject(old, sampled, rejections, sample.mask);
      const auto tokens = static_cast<double>(old.size());
      if (old.empty()) continue;
      if (!rejections.empty()) {
        const double rejected = tokens - static_cast<double>(sample.counted());
        metrics.mean("rollout_corr/rollout_rs_masked_fraction", rejected / tokens, tokens);
        metrics.mean("rollout_corr/rollout_rs_seq_masked_fraction", rejected > 0 ? 1.0 : 0.0);
      }
      double kl = 0.0, k3 = 0.0;
      for (size_t t = 0; t < old.size(); ++t) {
        const double apart = static_cast<double>(old[t]) - static_cast<double>(sampled[t]);
        kl -= apart;
        k3 += std::exp(apart) - apart - 1.0;
      }
      metrics.mean("rollout_corr/kl", kl / tokens, tokens);
      metrics.mean("rollout_corr/k3_kl", k3 / tokens, tokens);
      record(metrics, "rollout_corr/rollout_is", {sample.importance.begin(), sample.importance.end()});
    }
}

}  // namespace trireme::steps
