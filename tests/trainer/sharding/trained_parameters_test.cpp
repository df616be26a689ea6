// A model trained by many ranks, in every layout, against one rank. Ranks are threads.
#include "trainer/sharding/trained_parameters.h"

#include <gtest/gtest.h>

#include <cmath>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include "runtime/base/error.h"
#include "tests/trainer/sharding/small_training.h"

namespace trireme::sharding {
namespace {

void expect_one_ranks(Setting setting) {
  static const Outcome expected = run({});
  for (const bool exact : {false, true}) {
    setting.exact = exact;
    const Outcome outcome = run(setting);
    expect_near(outcome, expected);
    EXPECT_NEAR(outcome.norms[0], expected.norms[0], 1e-5 * expected.norms[0]);
    const Outcome again = run(setting);
    expect_equal(outcome.gradients, again.gradients);
    expect_equal(outcome.masters, again.masters);
  }
}

class EveryLayout : public testing::TestWithParam<std::tuple<int, int, int>> {};  // dp, tp, stage

TEST_P(EveryLayout, GivesOneRanksGradientsAndParameters) {
  const auto [dp, tp, stage] = GetParam();
  expect_one_ranks({.dp = dp, .tp = tp, .stage = stage, .recompute = stage % 2 == 1});
}

// All that fit 2, 3, 4 and 8 ranks.
std::vector<std::tuple<int, int, int>> layouts() {
  std::vector<std::tuple<int, int, int>> result;
  for (const int ranks : {2, 3, 4, 8})
    for (const int tp : {1, 2, 4, 8})
      for (int stage = 0; ranks % tp == 0 && stage < (ranks == tp ? 1 : 4); ++stage)
        result.emplace_back(ranks / tp, tp, stage);
  return result;
}

INSTANTIATE_TEST_SUITE_P(, EveryLayout, testing::ValuesIn(layouts()), [](const auto& info) {
  return "Dp" + std::to_string(std::get<0>(info.param)) + "Tp" + std::to_string(std::get<1>(info.param)) +
         "Zero" + std::to_string(std::get<2>(info.param));
});

class EveryContext : public testing::TestWithParam<Setting> {};

TEST_P(EveryContext, GivesOneRanksGradientsAndParameters) {
  for (const bool ring : {false, true}) {
    Setting setting = GetParam();
    setting.ring = ring;
    SCOPED_TRACE(ring ? "ring" : "heads, where they divide");
    expect_one_ranks(setting);
  }
}

// On 2, 4 and 8 ranks; alone, with dp, with tp, with pp, with several.
INSTANTIATE_TEST_SUITE_P(
    , EveryContext,
    testing::Values(Setting{.cp = 2}, Setting{.cp = 2, .stage = 3}, Setting{.cp = 4},
                    Setting{.cp = 4, .stage = 2, .recompute = true}, Setting{.cp = 8},
                    Setting{.dp = 2, .cp = 2}, Setting{.dp = 2, .cp = 2, .stage = 1},
                    Setting{.dp = 2, .cp = 2, .stage = 3, .recompute = true},
                    Setting{.dp = 2, .cp = 4, .stage = 2}, Setting{.cp = 2, .tp = 2},
                    Setting{.cp = 4, .tp = 2, .recompute = true}, Setting{.cp = 2, .tp = 4, .stage = 1},
                    Setting{.dp = 2, .cp = 2, .tp = 2, .stage = 3}, Setting{.pp = 2, .cp = 2},
                    Setting{.pp = 2, .cp = 4, .recompute = true},
                    Setting{.dp = 2, .pp = 2, .cp = 2, .stage = 1}, Setting{.pp = 2, .cp = 2, .tp = 2}),
    [](const auto& info) {
      const Setting& s = info.param;
      return fmt::format("Dp{}Pp{}Cp{}Tp{}Zero{}", s.dp, s.pp, s.cp, s.tp, s.stage);
    });

TEST(TrainedParameters, ExactSumsHaveTheSameBitsForAnyNumberOfReplicasAtOneCp) {
  for (const bool ring : {false, true}) {
    const Outcome expected = run({.cp = 2, .ring = ring, .exact = true, .adam = true});
    for (const int dp : {2, 3})
      for (const int stage : {0, 2}) {
        const Outcome outcome =
            run({.dp = dp, .cp = 2, .stage = stage, .ring = ring, .exact = true, .adam = true});
        expect_equal(outcome.gradients, expected.gradients);
        expect_equal(outcome.masters, expected.masters);
      }
  }
}

TEST(TrainedParameters, ExactSumsHaveTheSameBitsForAnyNumberOfReplicasAndAnyStage) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16})
    for (const int tp : {1, 2}) {
      const Outcome expected = run({.tp = tp, .exact = true, .adam = true, .dtype = dtype});
      for (const int dp : {2, 3, 4})
        for (const int stage : {0, 1, 2, 3}) {
          const Outcome outcome =
              run({.dp = dp, .tp = tp, .stage = stage, .exact = true, .adam = true, .dtype = dtype});
          SCOPED_TRACE(testing::Message()
                       << c10::toString(dtype) << " tp " << tp << " dp " << dp << " stage " << stage);
          expect_equal(outcome.gradients, expected.gradients);
          expect_equal(outcome.masters, expected.masters);
          EXPECT_EQ(outcome.norms[0], expected.norms[0]);
        }
    }
}

TEST(TrainedParameters, AFastSumHasTheSameBitsWhereverTheShardsAre) {
  for (const int dp : {2, 4}) {
    const Outcome expected = run({.dp = dp, .stage = 0, .adam = true});
    const Outcome outcome = run({.dp = dp, .stage = 1, .adam = true});
    expect_equal(outcome.gradients, expected.gradients);
  }
}

TEST(TrainedParameters, AGradientThatIsNoNumberIsSaidOnAllRanks) {
  for (const bool exact : {false, true})
    for (const int stage : {0, 1, 2, 3}) {
      comm::LocalWorld::run(3, [&](comm::Communicator& group) {
        const models::DecoderShape shape = small_shape();
        TrainedParameters parameters(shape, at::kCPU, at::kFloat, stage, exact, {&group, {}});
        models::Decoder decoder(shape, parameters.weights(), at::kFloat, parameters.holds_whole_weights());
        parameters.attach(decoder);
        parameters.initialize(5, 0);
        parameters.publish();
        parameters.begin_update(1);
        const models::ForwardBatch batch = sequence(1);
        const std::vector<int32_t> rows{1}, tokens{2};
        const at::Tensor loss =
            decoder.token_log_probs(decoder.forward_packed(batch), rows, tokens, 1.0).log_probs_N.sum();
        (loss * (group.rank() == 1 ? NAN : 1.0)).backward();
        parameters.end_backward();
        EXPECT_FALSE(std::isfinite(parameters.sum_gradient())) << stage;
      });
    }
}

TEST(TrainedParameters, ForwardPassesAloneNeedNoMatchInNumber) {
  comm::LocalWorld::run(3, [&](comm::Communicator& group) {
    const models::DecoderShape shape = small_shape();
    TrainedParameters whole(shape, at::kCPU, at::kFloat, 0, false, {});
    models::Decoder expected(shape, whole.weights(), at::kFloat);
    whole.attach(expected);
    whole.initialize(5, 0);
    whole.publish();
    TrainedParameters parameters(shape, at::kCPU, at::kFloat, 3, false, {&group, {}});
    models::Decoder decoder(shape, parameters.weights(), at::kFloat, false);
    parameters.attach(decoder);
    parameters.initialize(5, 0);
    parameters.publish();
    const at::NoGradGuard no_gradients;
    parameters.begin_forwards(static_cast<size_t>(group.rank()));
    for (int pass = 0; pass < group.rank(); ++pass)
      EXPECT_TRUE(decoder.forward_packed(sequence(pass)).equal(expected.forward_packed(sequence(pass))));
    parameters.end_forwards();
  });
}

TEST(CheckReplicas, NamesTheRankThatDiffers) {
  EXPECT_THROW(comm::LocalWorld::run(2,
                                     [](comm::Communicator& group) {
                                       const at::Tensor values = at::zeros({10}, at::kFloat);
                                       check_replicas(values, group);
                                       if (group.rank() == 1) values[7] = 1e-3;
                                       check_replicas(values, group);
                                     }),
               Error);
}

}  // namespace
}  // namespace trireme::sharding
