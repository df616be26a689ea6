// Models whose memory comes and goes, against ones whose memory stays: the same bits. Ranks are threads.
#include "trainer/sharding/model_memory.h"

#include <gtest/gtest.h>

#include <ATen/core/grad_mode.h>

#include "tests/trainer/sharding/small_training.h"
#include "trainer/memory/block_memory.h"

namespace trireme::sharding {
namespace {

using memory::has_memory;

void expect_same(Setting setting) {
  setting.adam = true;
  const Outcome expected = run(setting);
  setting.offload = true;
  const Outcome outcome = run(setting);
  expect_equal(outcome.gradients, expected.gradients);
  expect_equal(outcome.masters, expected.masters);
  EXPECT_EQ(outcome.norms[0], expected.norms[0]);
}

TEST(ModelMemory, UpdatesHaveTheSameBitsInEveryStage) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16})
    for (const int stage : {0, 1, 2, 3})
      for (const bool exact : {false, true})
        for (const bool recompute : {false, true}) {
          SCOPED_TRACE(testing::Message() << c10::toString(dtype) << " stage " << stage << " exact " << exact
                                          << " recompute " << recompute);
          expect_same({.dp = 2, .stage = stage, .exact = exact, .recompute = recompute, .dtype = dtype});
          // In fp32 without ZeRO the masters are the weights, and in stage 3 weights are gathered from them.
          if (stage == 3 || (stage == 0 && dtype == at::kFloat)) continue;
          expect_same({.dp = 2,
                       .stage = stage,
                       .exact = exact,
                       .recompute = recompute,
                       .weights_stay = true,
                       .dtype = dtype});
        }
}

TEST(ModelMemory, UpdatesHaveTheSameBitsInEveryLayout) {
  for (const int stage : {0, 2})
    for (const bool recompute : {false, true}) {
      expect_same({.dp = 2, .pp = 2, .tp = 2, .stage = stage, .recompute = recompute, .tied = true});
      expect_same({.dp = 2, .cp = 2, .stage = stage, .recompute = recompute, .dtype = at::kBFloat16});
    }
}

class ModelMemoryTest : public testing::Test {
 protected:
  void settle() { outside_.after([] {}).get(); }

  const models::DecoderShape shape_ = small_shape();
  memory::Outside outside_{at::kCPU, testing::TempDir()};
};

TEST_F(ModelMemoryTest, OfAModelInTrainingNothingIsThereBetweenItsStages) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    TrainedParameters parameters(shape_, at::kCPU, dtype, 0, false, {});
    models::Decoder decoder(shape_, parameters.weights(), dtype);
    parameters.attach(decoder);
    parameters.initialize(5, 0);
    parameters.publish();
    const models::ForwardBatch batch = sequence(5);
    const at::NoGradGuard no_gradients;
    const at::Tensor expected = decoder.forward_packed(batch).clone();
    ModelMemory memory(outside_, parameters, /*weights_stay=*/false);
    EXPECT_EQ(memory.parked_bytes(), 4 * shape_.num_parameters());
    memory.rest();
    settle();
    EXPECT_FALSE(memory.weights_are_there());
    EXPECT_FALSE(has_memory(parameters.masters()));
    EXPECT_FALSE(has_memory(parameters.gradient()));
    {
      const auto weights = memory.weights();
      settle();
      EXPECT_TRUE(decoder.forward_packed(batch).equal(expected));
      EXPECT_EQ(has_memory(parameters.masters()), dtype == at::kFloat) << "bf16 is computed with copies";
      const auto again = memory.weights();
      const auto masters = memory.masters(/*change=*/true);
      EXPECT_TRUE(has_memory(parameters.masters()));
      parameters.masters().mul_(0.5);
    }
    settle();
    EXPECT_FALSE(has_memory(parameters.masters()));
    const auto weights = memory.weights();
    EXPECT_FALSE(decoder.forward_packed(batch).equal(expected)) << "of the changed masters";
  }
}

TEST_F(ModelMemoryTest, WeightsThatOthersReadStay) {
  TrainedParameters parameters(shape_, at::kCPU, at::kBFloat16, 0, false, {});
  models::Decoder decoder(shape_, parameters.weights(), at::kBFloat16);
  parameters.attach(decoder);
  parameters.initialize(5, 0);
  parameters.publish();
  const models::ForwardBatch batch = sequence(5);
  const at::NoGradGuard no_gradients;
  const at::Tensor expected = decoder.forward_packed(batch).clone();
  ModelMemory memory(outside_, parameters, /*weights_stay=*/true);
  memory.rest();
  settle();
  EXPECT_TRUE(memory.weights_are_there());
  EXPECT_FALSE(has_memory(parameters.masters()));
  EXPECT_TRUE(decoder.forward_packed(batch).equal(expected));
  TrainedParameters in_place(shape_, at::kCPU, at::kFloat, 0, false, {});
  EXPECT_THROW(ModelMemory(outside_, in_place, true), Error);
}

TEST_F(ModelMemoryTest, AReadersWeightsComeForItsPasses) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    models::ParameterSet parameters(models::parameter_specs(shape_), at::kCPU, dtype);
    parameters.initialize(3, shape_);
    models::Decoder decoder(shape_, parameters, dtype);
    const models::ForwardBatch batch = sequence(5);
    const at::NoGradGuard no_gradients;
    const at::Tensor expected = decoder.forward_packed(batch).clone();
    ModelMemory memory(outside_, parameters, decoder);
    for (int round = 0; round < 3; ++round) {
      memory.rest();
      settle();
      EXPECT_FALSE(has_memory(parameters.flat()));
      if (round == 1) memory.expect();
      const auto weights = memory.weights();
      EXPECT_TRUE(decoder.forward_packed(batch).equal(expected));
    }
  }
}

TEST(ModelMemory, WithoutOffloadEverythingStays) {
  ModelMemory memory;
  const auto weights = memory.weights();
  const auto masters = memory.masters(true);
  memory.expect();
  memory.rest();
  EXPECT_TRUE(memory.weights_are_there());
  EXPECT_EQ(memory.parked_bytes(), 0);
}

}  // namespace
}  // namespace trireme::sharding
