// Models whose layers are shared out to the stages of a pipeline, against one rank. Ranks are threads.
#include "trainer/sharding/pipeline.h"

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "tests/trainer/sharding/small_training.h"

namespace trireme::sharding {
namespace {

using Layout = std::tuple<int, int, int, int>;  // dp, pp, tp, ZeRO stage

class EveryPipeline : public testing::TestWithParam<Layout> {};

TEST_P(EveryPipeline, GivesOneRanksGradientsAndParameters) {
  const auto [dp, pp, tp, stage] = GetParam();
  for (const bool tied : {false, true}) {
    const Outcome expected = run({.tied = tied, .layers = 5});
    for (const bool recompute : {false, true})
      for (const bool exact : {false, true}) {
        SCOPED_TRACE(testing::Message()
                     << "tied " << tied << " recompute " << recompute << " exact " << exact);
        const Setting setting{.dp = dp,
                              .pp = pp,
                              .tp = tp,
                              .stage = stage,
                              .exact = exact,
                              .recompute = recompute,
                              .tied = tied,
                              .layers = 5};
        const Outcome outcome = run(setting);
        EXPECT_EQ(outcome.copies.size(), tied ? 1 : 0) << "the last stage has the embedding as its head";
        expect_near(outcome, expected);
        EXPECT_NEAR(outcome.norms[0], expected.norms[0], 1e-5 * expected.norms[0]);
        const Outcome again = run(setting);
        expect_equal(outcome.gradients, again.gradients);
        expect_equal(outcome.masters, again.masters);
        EXPECT_EQ(outcome.norms[0], again.norms[0]);
      }
  }
}

// On 2, 4 and 8 ranks: alone, with dp, with tp, with both.
std::vector<Layout> layouts() {
  std::vector<Layout> result;
  for (const int ranks : {2, 4, 8})
    for (const int pp : {2, 4})
      for (const int tp : {1, 2, 4})
        if (ranks % (pp * tp) == 0)
          for (int stage = 0; stage < (ranks == pp * tp ? 1 : 3); ++stage)
            result.emplace_back(ranks / (pp * tp), pp, tp, stage);
  return result;
}

std::string name_of(const testing::TestParamInfo<Layout>& info) {
  const auto [dp, pp, tp, stage] = info.param;
  return "Dp" + std::to_string(dp) + "Pp" + std::to_string(pp) + "Tp" + std::to_string(tp) + "Zero" +
         std::to_string(stage);
}

INSTANTIATE_TEST_SUITE_P(, EveryPipeline, testing::ValuesIn(layouts()), name_of);

TEST(Pipeline, ExactSumsHaveTheSameBitsForAnyNumberOfReplicas) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16})
    for (const bool tied : {false, true}) {
      const Setting one{.pp = 2, .exact = true, .adam = true, .tied = tied, .dtype = dtype, .layers = 5};
      const Outcome expected = run(one);
      for (const int dp : {2, 3})
        for (const int stage : {0, 1, 2}) {
          Setting other = one;
          other.dp = dp;
          other.stage = stage;
          const Outcome outcome = run(other);
          SCOPED_TRACE(testing::Message()
                       << c10::toString(dtype) << " tied " << tied << " dp " << dp << " stage " << stage);
          expect_equal(outcome.gradients, expected.gradients);
          expect_equal(outcome.masters, expected.masters);
          EXPECT_EQ(outcome.norms[0], expected.norms[0]);
        }
    }
}

// One rank adds the head's and the embedding's gradient of each micro-batch before it puts them on the grid,
// two stages put each on the grid: so with tied embeddings pp = 1 stands apart.
TEST(Pipeline, ExactSumsHaveTheSameBitsForAnyNumberOfStages) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16})
    for (const bool tied : {false, true})
      for (const int tp : {1, 2}) {
        Setting setting{.pp = tied ? 2 : 1,
                        .tp = tp,
                        .exact = true,
                        .adam = true,
                        .tied = tied,
                        .dtype = dtype,
                        .layers = 5};
        const Outcome expected = run(setting);
        for (const int pp : {2, 3, 4, 5}) {
          setting.pp = pp;
          setting.recompute = !setting.recompute;
          const Outcome outcome = run(setting);
          SCOPED_TRACE(testing::Message()
                       << c10::toString(dtype) << " tied " << tied << " tp " << tp << " pp " << pp);
          expect_equal(outcome.gradients, expected.gradients);
          expect_equal(outcome.masters, expected.masters);
          EXPECT_EQ(outcome.norms[0], expected.norms[0]);
        }
      }
}

TEST(Pipeline, ReadsWithTheBitsOfOneRank) {
  for (const int count : {0, 1, 5})
    comm::LocalWorld::run(3, [&](comm::Communicator& stages) {
      const models::DecoderShape shape = small_shape();
      models::ParameterSet whole(models::parameter_specs(shape), at::kCPU);
      whole.initialize(5, shape);
      const models::Decoder expected(shape, whole, at::kFloat);
      const models::PipelineStage stage{stages.rank(), stages.size()};
      models::ParameterSet part(models::parameter_specs(shape, 1, 0, stage), at::kCPU);
      part.initialize(5, shape);
      const models::Decoder decoder(shape, part, at::kFloat, true, {}, {}, stage);
      Pipeline passes(decoder, nullptr, &stages);
      std::vector<models::ForwardBatch> batches;
      for (int index = 0; index < count; ++index) batches.push_back(sequence(index));
      at::Tensor sums = at::zeros({count}, at::kFloat);
      size_t next = 0;
      passes.read(
          batches.size(), [&](size_t k) -> const models::ForwardBatch& { return batches[k]; },
          [&](size_t k, const at::Tensor& hidden) {
            EXPECT_EQ(k, next++);
            EXPECT_TRUE(hidden.equal(expected.forward_packed(batches[k])));
            sums[static_cast<int64_t>(k)] = hidden.sum();
          });
      EXPECT_EQ(next, passes.is_last() ? batches.size() : 0);
      passes.share(sums);
      for (int k = 0; k < count; ++k)
        EXPECT_EQ(sums[k].item<float>(), expected.forward_packed(batches[k]).sum().item<float>());
    });
}

TEST(Pipeline, AGradientThatIsNoNumberIsSaidOnAllStages) {
  for (const bool exact : {false, true})
    for (const bool tied : {false, true})
      comm::LocalWorld::run(3, [&](comm::Communicator& stages) {
        const models::DecoderShape shape = small_shape(tied);
        const TrainingRanks ranks{nullptr, {}, &stages};
        TrainedParameters parameters(shape, at::kCPU, at::kFloat, 0, exact, ranks);
        models::Decoder decoder(shape, parameters.weights(), at::kFloat, true, {}, {}, ranks.pipeline());
        parameters.attach(decoder);
        parameters.initialize(5, 0);
        parameters.publish();
        Pipeline passes(decoder, &parameters, &stages);
        const models::ForwardBatch batch = sequence(1);
        passes.train(
            1, [&](size_t) -> const models::ForwardBatch& { return batch; },
            [&](size_t, const at::Tensor& hidden) { return hidden.sum() * NAN; });
        EXPECT_FALSE(std::isfinite(parameters.sum_gradient()));
      });
}

}  // namespace
}  // namespace trireme::sharding
