// Every estimator beside tools/make_goldens/objectives.py, which has the formulas in NumPy; and what they do
// where formulas say nothing.
#include "trainer/algorithms/estimators.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>

#include "runtime/base/error.h"
#include "runtime/base/files.h"
#include "trainer/algorithms/value_fit.h"

namespace trireme::algorithms {
namespace {

using Groups = std::map<int64_t, std::vector<Trajectory>>;

// As a step does it: groups one by one, then the batch.
void estimate(const Estimator& estimator, Groups& groups, const AlgorithmConfig& config) {
  std::vector<BatchStatistics> statistics;
  for (auto& [id, group] : groups) {
    estimator.of_group(group, config);
    statistics.push_back(statistics_of(id, group));
  }
  std::reverse(statistics.begin(), statistics.end());  // ranks come in any order
  if (estimator.over_batch)
    for (auto& [id, group] : groups) estimator.over_batch(group, merge(statistics));
}

Trajectory response(double reward, size_t length) {
  Trajectory result;
  result.reward = reward;
  result.rewards.assign(length, 0.0);
  if (length > 0) result.rewards.back() = reward;
  result.mask.assign(length, 1);
  result.values.assign(length, 0.0);
  return result;
}

TEST(Estimators, EqualTheFormulasInNumPyOnRandomAndEdgeBatches) {
  const auto cases = nlohmann::json::parse(files::read(std::string(std::getenv("TRIREME_SOURCE_DIR")) +
                                                       "/tests/trainer/algorithms/goldens/advantages.json"));
  ASSERT_GE(cases.size(), 11U);
  for (const auto& batch : cases)
    for (const Estimator& estimator : estimators()) {
      SCOPED_TRACE(batch.at("name").get<std::string>() + ", " + estimator.name);
      AlgorithmConfig config;
      config.norm_adv_by_std_in_grpo = batch.at("by_std");
      config.gamma = batch.at("gamma");
      config.lam = batch.at("lam");
      Groups groups;
      std::vector<std::pair<int64_t, size_t>> places;
      for (size_t i = 0; i < batch.at("groups").size(); ++i) {
        auto& group = groups[batch.at("groups")[i].get<int64_t>()];
        places.emplace_back(batch.at("groups")[i].get<int64_t>(), group.size());
        Trajectory& one = group.emplace_back();
        one.reward = batch.at("reward")[i];
        one.greedy_reward = batch.at("greedy")[i];
        batch.at("rewards")[i].get_to(one.rewards);
        batch.at("mask")[i].get_to(one.mask);
        batch.at("values")[i].get_to(one.values);
      }
      estimate(estimator, groups, config);
      const auto& expected = batch.at("expected").at(estimator.name);
      for (size_t i = 0; i < places.size(); ++i) {
        const Trajectory& one = groups[places[i].first][places[i].second];
        const auto advantages = expected.at("advantages")[i].get<std::vector<double>>();
        ASSERT_EQ(one.advantages.size(), advantages.size());
        ASSERT_EQ(one.returns.size(), advantages.size());
        for (size_t t = 0; t < advantages.size(); ++t)
          EXPECT_NEAR(one.advantages[t], advantages[t], 1e-7 * (1 + std::abs(advantages[t])))
              << i << ", " << t;
        if (!expected.contains("returns")) continue;
        const auto returns = expected.at("returns")[i].get<std::vector<double>>();
        for (size_t t = 0; t < returns.size(); ++t)
          EXPECT_NEAR(one.returns[t], returns[t], 1e-7 * (1 + std::abs(returns[t]))) << i << ", " << t;
      }
    }
}

TEST(ValueFit, EqualsTheFormulaInNumPyHoweverGroupsAreDealtOut) {
  const auto cases = nlohmann::json::parse(files::read(std::string(std::getenv("TRIREME_SOURCE_DIR")) +
                                                       "/tests/trainer/algorithms/goldens/advantages.json"));
  for (const auto& batch : cases) {
    AlgorithmConfig config;
    config.gamma = batch.at("gamma");
    config.lam = batch.at("lam");
    ValueFit first, second;
    for (size_t i = 0; i < batch.at("groups").size(); ++i) {
      std::vector<Trajectory> one(1);
      batch.at("rewards")[i].get_to(one[0].rewards);
      batch.at("mask")[i].get_to(one[0].mask);
      batch.at("values")[i].get_to(one[0].values);
      gae(one, config);
      (i % 2 == 0 ? first : second).add(one[0]);
    }
    first.add(second);
    const double expected = batch.at("explained_variance");
    EXPECT_NEAR(first.explained_variance(), expected, 1e-6 * (1 + std::abs(expected))) << batch.at("name");
  }
}

TEST(Estimators, AreNamedAlikeInBothTables) {
  ASSERT_EQ(std::size(kEstimators), estimators().size());
  for (size_t i = 0; i < std::size(kEstimators); ++i) {
    EXPECT_STREQ(kEstimators[i].name, estimators()[i].name);
    EXPECT_STREQ(needs_of(kEstimators[i].name).name, kEstimators[i].name);
    EXPECT_STREQ(find_estimator(kEstimators[i].name).name, kEstimators[i].name);
  }
  EXPECT_THROW(find_estimator("a2c"), Error);
}

TEST(Estimators, KeepTheRewardOfALoneResponse) {
  for (const char* name : {"grpo", "dr_grpo", "rloo", "opo", "gpg"}) {
    Groups groups{{0, {response(0.7, 2)}}};
    estimate(find_estimator(name), groups, {});
    EXPECT_NEAR(groups[0][0].advantages[1], 0.7, 1e-5) << name;
  }
  Groups groups{{0, {response(0.7, 2)}}};
  estimate(find_estimator("grpo_passk"), groups, {});
  EXPECT_EQ(groups[0][0].advantages[1], 0.0);
}

TEST(Estimators, GiveNothingWhereAllRewardsAreEqual) {
  for (const char* name :
       {"grpo", "dr_grpo", "rloo", "reinforce_plus_plus_baseline", "opo", "gpg", "grpo_passk"}) {
    Groups groups{{0, {response(0.3, 2), response(0.3, 3), response(0.3, 1)}},
                  {1, {response(-1, 2), response(-1, 3), response(-1, 1)}}};
    estimate(find_estimator(name), groups, {});
    for (const auto& [id, group] : groups)
      for (const Trajectory& one : group)
        for (const double advantage : one.advantages) EXPECT_NEAR(advantage, 0.0, 1e-9) << name;
  }
}

TEST(Estimators, CountResponsesWithoutTokensAmongTheRewards) {
  Groups groups{{0, {response(1, 2), response(0, 0)}}};
  estimate(find_estimator("dr_grpo"), groups, {});
  EXPECT_DOUBLE_EQ(groups[0][0].advantages[0], 0.5);
  EXPECT_TRUE(groups[0][1].advantages.empty());
}

TEST(Estimators, OfABatchDoNotDependOnTheOrderOfItsGroups) {
  std::vector<BatchStatistics> parts;
  for (int64_t id = 0; id < 9; ++id) {
    std::vector<Trajectory> group{response(0.1 * static_cast<double>(id * id), 3), response(1.0 / 3.0, 2)};
    dr_grpo(group, {});
    parts.push_back(statistics_of(id, group));
  }
  const BatchStatistics forwards = merge(parts);
  std::reverse(parts.begin(), parts.end());
  std::swap(parts[1], parts[5]);
  const BatchStatistics shuffled = merge(parts);
  EXPECT_EQ(forwards.mean, shuffled.mean);
  EXPECT_EQ(forwards.squares, shuffled.squares);
  EXPECT_EQ(forwards.tokens, 45);
}

}  // namespace
}  // namespace trireme::algorithms
