#include "trainer/steps/step_metrics.h"

#include <gtest/gtest.h>

#include <cmath>

#include <ATen/ops/full.h>

#include "runtime/comm/local_communicator.h"

namespace trireme::steps {
namespace {

TEST(StepMetrics, PutsRanksTogetherByTheKindOfEachMetric) {
  std::vector<observe::Metrics> results(3);
  comm::LocalWorld::run(3, [&](comm::Communicator& world) {
    const int rank = world.rank();
    StepMetrics metrics;
    metrics.mean("mean", rank, 1.0 + rank);  // weights 1, 2, 3
    metrics.sum("sum", 1.0 + rank);
    metrics.max("max", -5.0 + rank);
    metrics.min("min", 5.0 - rank);
    metrics.deviation("std", at::full({2}, static_cast<double>(rank)));
    if (rank == 1) metrics.spread("only/here", 4.0);
    results[static_cast<size_t>(rank)] = metrics.reduce(world);
  });
  for (const auto& metrics : results) {
    EXPECT_DOUBLE_EQ(metrics.at("mean"), (0.0 * 1 + 1.0 * 2 + 2.0 * 3) / 6.0);
    EXPECT_DOUBLE_EQ(metrics.at("sum"), 6.0);
    EXPECT_DOUBLE_EQ(metrics.at("max"), -3.0);
    EXPECT_DOUBLE_EQ(metrics.at("min"), 3.0);
    EXPECT_NEAR(metrics.at("std"), std::sqrt(2.0 / 3.0), 1e-12);
    EXPECT_DOUBLE_EQ(metrics.at("only/here/max"), 4.0);
  }
}

TEST(StepMetrics, AreTheSameAfterTheyWereWrittenDownAndAddedUp) {
  StepMetrics part, rest, whole;
  for (StepMetrics* metrics : {&part, &whole}) {
    metrics->mean("mean", 0.1, 3.0);
    metrics->max("max", -2.0);
  }
  for (StepMetrics* metrics : {&rest, &whole}) {
    metrics->mean("mean", 0.7);
    metrics->max("max", -1.5);
    metrics->sum("sum", 1.0 / 3.0);
  }
  whole.record(false);
  part.record(false);  // says nothing of what is added
  part.add(StepMetrics::from_lines(rest.to_lines()));
  comm::LocalWorld::run(1, [&](comm::Communicator& world) { EXPECT_EQ(part.reduce(world), whole.reduce(world)); });
  EXPECT_EQ(StepMetrics::from_lines(part.to_lines()).to_lines(), part.to_lines());
}

}  // namespace
}  // namespace trireme::steps
