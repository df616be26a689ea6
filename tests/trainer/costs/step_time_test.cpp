// The model of time against figures worked out by hand, and what must hold for any sizes.
#include "trainer/costs/step_time.h"

#include <gtest/gtest.h>

#include <cmath>

namespace trireme::costs {
namespace {

// Nothing but products, bytes and messages, all at their best.
Constants ideal() {
  Constants constants = gpu_constants();
  for (size_t i = 0; i < kNumConstants; ++i) constants.all[i].value = 0;
  for (const auto share : {Constant::product_share, Constant::decode_share, Constant::link_share,
                           Constant::update_share, Constant::touch_share})
    constants.set(share, 1);
  constants.set(Constant::length_spread, 4);
  return constants;
}

ModelShape small() {
  return {"small", 1000, 100, 200, 2, 4, 2, 25};
}

Machine machine_of(int64_t nodes, int64_t devices) {
  Machine machine{{"test", 1e12, 1e12, 1e12, 1e9, 1e9, 1e8, 1e8}, devices, nodes};
  return machine;
}

TEST(Ring, SendsAllButItsOwnPart) {
  const Machine machine = machine_of(4, 8);
  const Constants constants = ideal();
  const LinkUse inside = ring(8e9, {8, 1}, machine, constants);  // one node
  EXPECT_DOUBLE_EQ(inside.fabric_bytes, 7e9);
  EXPECT_DOUBLE_EQ(inside.network_bytes, 0);
  EXPECT_DOUBLE_EQ(inside.seconds, 7);
  const LinkUse across = ring(8e9, {4, 8}, machine, constants);  // one rank of each node
  EXPECT_DOUBLE_EQ(across.fabric_bytes, 0);
  EXPECT_DOUBLE_EQ(across.network_bytes, 6e9);
  EXPECT_DOUBLE_EQ(across.seconds, 60);
  const LinkUse both = ring(8e9, {32, 1}, machine, constants);  // all ranks of all nodes
  EXPECT_DOUBLE_EQ(both.fabric_bytes, 7e9);
  EXPECT_DOUBLE_EQ(both.network_bytes, 0.75e9);  // shared out between the node's eight ports
  EXPECT_DOUBLE_EQ(ring(8e9, {1, 1}, machine, constants).seconds, 0);
}

TEST(ResponseLengths, KeepMeanAndLimit) {
  for (const double mean : {10.0, 400.0, 900.0, 1000.0})
    for (const double spread : {2.0, 4.0, 12.0}) {
      const ResponseLengths lengths(mean, 1000, spread);
      double sum = 0;
      for (int t = 0; t < 1000; ++t) sum += lengths.longer_than(t + 0.5);
      EXPECT_NEAR(sum, std::min(mean, 995.0), 0.02 * mean + 1000 / 256.0 / 2)  // half a cell
          << mean << " " << spread;
      EXPECT_DOUBLE_EQ(lengths.longer_than(0), 1);
      EXPECT_LE(lengths.longest_of(1e9), 1000);
      EXPECT_LE(lengths.longest_of(10), lengths.longest_of(1000));
      for (int t = 0; t < 1000; t += 50) {
        EXPECT_GE(lengths.longer_than(t), lengths.longer_than(t + 50));
        EXPECT_GE(lengths.left_more_than(t), lengths.left_more_than(t + 50));
      }
      EXPECT_GE(lengths.second_moment(), 0.98 * std::pow(lengths.mean(), 2));
    }
}

TEST(GenerationTime, IsWeightsAndKeysReadOnceAStep) {
  const ModelShape shape = small();
  Machine machine = machine_of(1, 1);
  machine.device.bf16_flops = 1e30;
  // One sequence, no prompt: 100 steps (of a response of always about 100), each reads all matrices.
  const GenerationTime time = generation_time(shape, {}, {.sequences = 1, .prompts = 1, .slots = 1},
                                              ResponseLengths(100, 100, 1e4), machine, ideal());
  // q 100, k and v 50 each, o 100, three matrices of the MLP; the head.
  const double weights = 2.0 * (2 * (200 * 100 + 100 * 100 + 3 * 200 * 100) + 1000 * 100);
  const double keys =
      50 * 2 * 2 * 2 * 25 * 2;  // 50 tokens in the mean, k and v of 2 layers, 2 heads of 25, bf16
  EXPECT_NEAR(time.decode, 100 * (weights + keys) / 1e9, 0.02 * time.decode);
  EXPECT_NEAR(time.idle_tail, 0, 0.01 * time.decode);
}

TEST(GenerationTime, GrowsWithSequencesAndFallsWithBandwidth) {
  const ModelShape shape = find_shape("qwen2.5-7b");
  const ResponseLengths lengths(500, 2000, 4);
  double before = 0;
  for (const double sequences : {1.0, 16.0, 200.0, 256.0, 300.0, 1000.0, 5000.0}) {
    const GenerationJob job{sequences, sequences, 100, 256, 1};
    Machine machine = parse_machine("1xH100");
    const double now = generation_time(shape, {}, job, lengths, machine, gpu_constants()).total();
    EXPECT_GT(now, before * 0.98) << sequences;
    machine.device.memory_rate *= 2;
    EXPECT_LE(generation_time(shape, {}, job, lengths, machine, gpu_constants()).total(), now);
    before = now;
  }
}

Job training_job(int64_t ranks, Layout layout) {
  Job job;
  job.model = job.critic_model = small();
  job.machine = machine_of(1, ranks);
  job.role(PlannedRole::actor) = {true, 0, layout};
  job.work = {.prompts = 64, .prompt_tokens = 0, .response_tokens = 99.5, .response_limit = 100};
  job.constants = ideal();
  return job;
}

TEST(StepTime, OfOneRankIsItsProducts) {
  Job job = training_job(1, {.micro_tokens = 1 << 20});
  job.machine.device.memory_rate = 1e30;  // the optimizer takes no time
  const double rows = 64 * 99.5;
  const double layer = 2.0 * (200 * 100 + 100 * 100 + 3 * 200 * 100), head = 2.0 * 1000 * 100;
  const double attention = 4.0 * 100 * 99.5 / 2;                         // half of the others in the mean
  const double flops = rows * (3 * 2 * (layer + attention) + 4 * head);  // the head's logits are made twice
  EXPECT_NEAR(step_time(job, 1).seconds, flops / 1e12, 0.01 * flops / 1e12);
  job.role(PlannedRole::actor).layout.recompute = true;
  EXPECT_NEAR(step_time(job, 1).seconds, (flops + rows * 2 * (layer + attention)) / 1e12,
              0.01 * flops / 1e12);
}

TEST(StepTime, AddsTheGradientsAllReduce) {
  Job job = training_job(4, {.dp = 4, .micro_tokens = 1 << 20});
  job.machine.device.bf16_flops = job.machine.device.memory_rate = 1e30;
  const auto parameters = static_cast<double>(small().num_parameters());
  EXPECT_NEAR(step_time(job, 1).seconds, 2 * 0.75 * 4 * parameters / 1e9, 1e-6);
  job.role(PlannedRole::actor).layout.zero_stage = 1;  // a reduce-scatter in fp32, an all-gather in bf16
  EXPECT_NEAR(step_time(job, 1).seconds, 0.75 * (4 + 2) * parameters / 1e9, 1e-6);
}

TEST(StepTime, PipelinesWaitForTheirFirstAndLastMicroBatch) {
  Job job = training_job(4, {.pp = 2, .tp = 2, .micro_tokens = 64 * 100 / 8});
  job.constants.set(Constant::link_share, 1e20);
  const StageTime stage = step_time(job, 1).stages.front();
  EXPECT_NEAR(stage.bubble, stage.work / 8, 0.01 * stage.work);
}

TEST(StepTime, RolloutAheadHidesTheShorterHalf) {
  Job job = training_job(2, {.micro_tokens = 1 << 20});
  job.machine = machine_of(1, 2);
  job.role(PlannedRole::rollout) = {true, 1, {}};
  const StepTime together = step_time(job, 64);
  job.steps_ahead = true;
  const StepTime ahead = step_time(job, 64);
  EXPECT_LT(ahead.seconds, together.seconds);
  EXPECT_GE(ahead.seconds, together.stage("gen"));
}

// Of many mini-batches all but the first and the last go on side by side; where learning waits for the whole
// batch, passes alone do.
TEST(StepTime, StreamedMiniBatchesHideAllButOneOfTheShorterSide) {
  Job job = training_job(2, {.micro_tokens = 1 << 20});
  job.machine = machine_of(1, 2);
  job.role(PlannedRole::rollout) = {true, 1, {}};
  job.role(PlannedRole::reference) = job.role(PlannedRole::actor);
  job.work.updates = 8;
  const StepTime together = step_time(job, 64);
  job.stream = true;
  const StepTime parts = step_time(job, 64);
  const double gen = together.stage("gen"), ref = together.stage("ref"), learn = together.stage("update_actor"),
               moved = together.stage("update_weights");
  EXPECT_NEAR(parts.seconds, std::max(gen + (ref + learn) / 8, gen / 8 + ref + learn) + moved, 1e-9);
  EXPECT_NEAR(parts.waiting, 2 * (parts.seconds - moved) - gen - ref - learn, 1e-9);
  job.work.old_log_prob = true;
  const StepTime late = step_time(job, 64);
  const double read = ref + late.stage("old_log_prob");
  EXPECT_NEAR(late.seconds, std::max(gen + read / 8, gen / 8 + read) + learn + moved, 1e-9);
}

}  // namespace
}  // namespace trireme::costs
