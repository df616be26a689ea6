#include "trainer/evaluation/validation_metrics.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

namespace trireme::evaluation {
namespace {

// The draws are the same bits; sums are added in another order than numpy's, so the last digits may differ.
constexpr double kTolerance = 1e-12;

TEST(ValidationMetrics, AreThoseOfNumpy) {
  std::ifstream in(std::string(std::getenv("TRIREME_SOURCE_DIR")) +
                   "/tests/trainer/evaluation/goldens/validation.json");
  const auto golden = nlohmann::json::parse(in);
  std::vector<JudgedProblem> problems;
  for (const auto& problem : golden["problems"])
    problems.push_back({problem["data_source"],
                        problem["values"].get<std::map<std::string, std::vector<double>>>(),
                        problem["answers"].get<std::vector<std::string>>()});
  const auto metrics = validation_metrics(problems);
  const auto expected = golden["metrics"].get<std::map<std::string, double>>();
  EXPECT_GT(expected.size(), 150U);
  for (const auto& [name, value] : expected) {
    ASSERT_TRUE(metrics.contains(name)) << name;
    EXPECT_NEAR(metrics.at(name), value, kTolerance * std::max(1.0, std::abs(value))) << name;
  }
  for (const auto& [name, value] : metrics) EXPECT_TRUE(expected.contains(name)) << name;
}

TEST(ValidationMetrics, OfOneResponseAreItsMean) {
  const std::vector<JudgedProblem> problems = {{"s", {{"reward", {1.0}}, {"acc", {1.0}}}, {"5"}},
                                               {"s", {{"reward", {0.0}}, {"acc", {0.0}}}, {"6"}}};
  EXPECT_EQ(validation_metrics(problems), (std::map<std::string, double>{{"val-core/s/acc/mean@1", 0.5},
                                                                         {"val-core/s/reward/mean@1", 0.5}}));
}

TEST(ValidationMetrics, BestIsNoWorseThanMeanIsNoWorseThanWorst) {
  const std::vector<JudgedProblem> problems = {
      {"s", {{"acc", {1, 0, 0, 0, 1, 0, 0, 1}}}, {"a", "b", "c", "d", "a", "e", "f", "a"}}};
  const auto metrics = validation_metrics(problems);
  EXPECT_GT(metrics.at("val-core/s/acc/best@8/mean"), metrics.at("val-core/s/acc/mean@8"));
  EXPECT_LT(metrics.at("val-aux/s/acc/worst@8/mean"), metrics.at("val-core/s/acc/mean@8"));
  EXPECT_GT(metrics.at("val-core/s/acc/maj@8/mean"),
            metrics.at("val-core/s/acc/mean@8"));  // only the right agree
  EXPECT_GT(metrics.at("val-core/s/acc/best@8/mean"), metrics.at("val-aux/s/acc/best@2/mean"));
}

TEST(ValidationMetrics, OfNothingAreNone) {
  EXPECT_TRUE(validation_metrics({}).empty());
  const std::vector<JudgedProblem> problems = {{"s", {{"acc", {}}}, {}}};
  EXPECT_TRUE(validation_metrics(problems).empty());
}

}  // namespace
}  // namespace trireme::evaluation
