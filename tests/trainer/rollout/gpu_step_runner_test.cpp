// The GPU's way through a step, whole, on the double of a GPU: the same kernels' source, host memory, and
// graphs that are calls made again. Products are those of the CPU here, whose rows are exact, so what is
// drawn must not depend on graphs, padding, splits or company.
#include "trainer/rollout/gpu_step_runner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <random>

#include <ATen/TensorOperators.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include "runtime/base/error.h"
#include "tests/trainer/models/gpu_kernels_double.h"
#include "tests/trainer/rollout/draw_kernel_double.h"
#include "trainer/models/device_ops.h"
#include "trainer/rollout/scheduler.h"

namespace trireme::rollout {
namespace {

class RepeatedCalls : public StepGraphs {
 public:
  void capture(int64_t rows, const std::function<void()>& enqueue) override {
    if (!graphs_.empty()) {
      EXPECT_LT(rows, graphs_.begin()->first) << "the largest first";
    }
    enqueue();
    graphs_[rows] = enqueue;
  }
  void replay(int64_t rows) override { graphs_.at(rows)(); }
  void clear() override { graphs_.clear(); }

 private:
  std::map<int64_t, std::function<void()>> graphs_;
};

models::DecoderShape tiny_shape() {
  models::DecoderShape shape;
  shape.vocab_size = 97;
  shape.hidden_size = 64;
  shape.intermediate_size = 96;
  shape.num_hidden_layers = 2;
  shape.num_attention_heads = 7;
  shape.num_key_value_heads = 1;
  shape.head_dim = 64;
  shape.qk_norm = true;
  shape.max_position_embeddings = 512;
  shape.initializer_range = 0.25;
  return shape;
}

class GpuStepRunnerTest : public testing::Test {
 protected:
  GpuStepRunnerTest()
      : shape_(tiny_shape()),
        parameters_(models::parameter_specs(shape_), at::Device(at::kCPU)),
        decoder_(shape_, parameters_, at::kFloat) {
    parameters_.initialize(3, shape_);
    decoder_.refresh();
  }
  void SetUp() override { models::device::use_double(&models::gpu_kernels_double()); }
  void TearDown() override { models::device::use_double(nullptr); }

  static std::vector<Request> requests(uint32_t seed, int count) {
    std::mt19937 random(seed);
    std::vector<Request> requests(static_cast<size_t>(count));
    for (int r = 0; r < count; ++r) {
      Request& request = requests[static_cast<size_t>(r)];
      request.id = 50 + r;
      request.seed = seed;
      request.n = 1 + random() % 3;
      request.greedy = random() % 4 == 0;
      request.sampling.temperature = random() % 2 ? 1.0 : 0.7;
      if (random() % 3 == 0) request.sampling.top_p = 0.8;
      if (random() % 4 == 0) request.sampling.top_k = 12;
      if (random() % 4 == 0) request.sampling.min_p = 0.05;
      request.max_new_tokens = 1 + random() % 12;
      request.prompt.resize(r == 0 ? 150 : 1 + random() % 20);
      for (int32_t& token : request.prompt) token = static_cast<int32_t>(random() % 97);
    }
    return requests;
  }

  std::vector<Completion> generate(StepRunner& runner, const RolloutConfig& config, int64_t pages,
                                   const std::vector<Request>& requests) {
    const StopCondition stops({5}, 97);
    std::vector<Completion> completions;
    Scheduler scheduler(config, pages, requests, stops, completions);
    while (!scheduler.is_done()) {
      const StepPlan& plan = scheduler.schedule();
      scheduler.retire(runner.run(plan, scheduler), {});
    }
    return completions;
  }

  models::DecoderShape shape_;
  models::ParameterSet parameters_;
  models::Decoder decoder_;
};

TEST(GraphLadder, EndsWithTheLargestBatch) {
  EXPECT_EQ(graph_ladder(1), (std::vector<int64_t>{1}));
  EXPECT_EQ(graph_ladder(6), (std::vector<int64_t>{1, 2, 4, 6}));
  EXPECT_EQ(graph_ladder(50), (std::vector<int64_t>{1, 2, 4, 8, 16, 32, 48, 50}));
  EXPECT_EQ(graph_ladder(64).back(), 64);
}

TEST_F(GpuStepRunnerTest, GraphsPaddingAndCompanyChangeNoBit) {
  int64_t replays = 0;
  for (uint32_t seed = 1; seed <= 3; ++seed) {
    const auto wanted = requests(seed, 6);
    RolloutConfig roomy;
    roomy.max_num_seqs = 20;
    const StepLimits limits{60 * 16, 200, 20};
    GpuStepRunner plain(decoder_, limits, draw_kernel_double(), nullptr);
    const auto expected = generate(plain, roomy, 60, wanted);
    EXPECT_EQ(plain.num_replays(), 0);
    RolloutConfig tight;
    tight.max_num_seqs = 5;
    tight.max_num_batched_tokens = 40;
    tight.page_size = 4;
    GpuStepRunner captured(decoder_, {60 * 4, 200, 5}, draw_kernel_double(),
                           std::make_unique<RepeatedCalls>());
    const auto again = generate(captured, tight, 60, wanted);
    replays += captured.num_replays();
    for (size_t r = 0; r < wanted.size(); ++r)
      for (size_t j = 0; j < expected[r].responses.size(); ++j) {
        EXPECT_EQ(again[r].responses[j].tokens, expected[r].responses[j].tokens) << r << " " << j;
        EXPECT_EQ(again[r].responses[j].log_probs, expected[r].responses[j].log_probs) << r << " " << j;
        EXPECT_EQ(again[r].responses[j].entropies, expected[r].responses[j].entropies) << r << " " << j;
      }
  }
  EXPECT_GT(replays, 10);
}

TEST_F(GpuStepRunnerTest, ALogProbabilityIsThatOfTheTrainingForward) {
  const auto wanted = requests(9, 4);
  GpuStepRunner runner(decoder_, {960, 200, 8}, draw_kernel_double(), std::make_unique<RepeatedCalls>());
  RolloutConfig config;
  config.max_num_seqs = 8;
  const auto completions = generate(runner, config, 60, wanted);
  for (size_t r = 0; r < wanted.size(); ++r)
    for (const Response& response : completions[r].responses) {
      std::vector<int32_t> tokens = wanted[r].prompt;
      tokens.insert(tokens.end(), response.tokens.begin(), response.tokens.end());
      const auto length = static_cast<int32_t>(tokens.size()) - 1;
      models::ForwardBatch batch;
      std::vector<int32_t> rows;
      for (int32_t i = 0; i < length; ++i) {
        batch.tokens.push_back(tokens[static_cast<size_t>(i)]);
        batch.positions.push_back(i);
        batch.slots.push_back(i);
      }
      batch.segments.push_back({0, length, 0, {{0, length}}});
      for (size_t i = 0; i < response.tokens.size(); ++i)
        rows.push_back(static_cast<int32_t>(wanted[r].prompt.size() + i) - 1);
      const auto trained = decoder_.token_log_probs(decoder_.forward_packed(batch), rows, response.tokens,
                                                    wanted[r].sampling.temperature);
      for (size_t i = 0; i < response.tokens.size(); ++i) {
        EXPECT_EQ(trained.log_probs_N[static_cast<int64_t>(i)].item<float>(), response.log_probs[i]);
        EXPECT_EQ(trained.entropy_N[static_cast<int64_t>(i)].item<float>(), response.entropies[i]);
      }
    }
}

TEST_F(GpuStepRunnerTest, LikelihoodsAreThoseOfTheCpuKernels) {
  auto wanted = requests(4, 5);
  for (Request& request : wanted) request.greedy = true;
  RolloutConfig config;
  config.max_num_seqs = 16;
  GpuStepRunner runner(decoder_, {960, 200, 16}, draw_kernel_double(), std::make_unique<RepeatedCalls>());
  const auto on_double = generate(runner, config, 60, wanted);
  models::device::use_double(nullptr);
  const auto cpu = make_step_runner(decoder_, {960, 200, 16});
  const auto expected = generate(*cpu, config, 60, wanted);
  for (size_t r = 0; r < wanted.size(); ++r) {
    EXPECT_EQ(on_double[r].responses[0].tokens, expected[r].responses[0].tokens);
    for (size_t i = 0; i < expected[r].responses[0].tokens.size(); ++i)
      EXPECT_NEAR(on_double[r].responses[0].log_probs[i], expected[r].responses[0].log_probs[i], 2e-5);
  }
}

TEST_F(GpuStepRunnerTest, GradientsAreThoseOfTheCpuKernels) {
  const auto gradient = [&] {
    models::ParameterSet parameters(models::parameter_specs(shape_), at::Device(at::kCPU));
    parameters.enable_gradients();
    parameters.initialize(3, shape_);
    const models::Decoder decoder(shape_, parameters, at::kFloat);
    models::ForwardBatch batch;
    // A prompt of 40 tokens and two answers to it.
    const auto append = [&](int32_t position, int32_t length, std::vector<models::SlotSpan> spans) {
      const auto row = static_cast<int32_t>(batch.tokens.size());
      spans.push_back({row, length});
      batch.segments.push_back({row, length, position, std::move(spans)});
      for (int32_t i = 0; i < length; ++i) {
        batch.tokens.push_back((7 * (row + i)) % 97);
        batch.positions.push_back(position + i);
        batch.slots.push_back(row + i);
      }
    };
    append(0, 40, {});
    append(40, 9, {{0, 40}});
    append(40, 5, {{0, 40}});
    const std::vector<int32_t> rows{39, 39, 42, 45, 50}, tokens{1, 2, 3, 4, 5};
    const auto result = decoder.token_log_probs(decoder.forward_packed(batch), rows, tokens, 0.9, true);
    (result.log_probs_N.sum() + 0.3 * result.entropy_N.sum()).backward();
    return parameters.flat_gradient().clone();
  };
  const at::Tensor on_double = gradient();
  models::device::use_double(nullptr);
  const at::Tensor expected = gradient();
  EXPECT_GT(expected.abs().max().item<float>(), 0.1f);
  EXPECT_LE((on_double - expected).abs().max().item<float>(), 2e-4f * expected.abs().max().item<float>());
}

TEST_F(GpuStepRunnerTest, SaysWhichRequestsLogitsAreNotNumbers) {
  parameters_.flat().fill_(std::nanf(""));
  decoder_.refresh();
  GpuStepRunner runner(decoder_, {960, 200, 8}, draw_kernel_double(), std::make_unique<RepeatedCalls>());
  RolloutConfig config;
  config.max_num_seqs = 8;
  try {
    generate(runner, config, 60, requests(2, 1));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("request 50"), std::string::npos) << error.message();
  }
}

// Tensors' bytes of this thread, in the host's memory.
class TensorBytes : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, int64_t size, size_t, size_t, c10::Device) override {
    held_ += size;
    most_ = std::max(most_, held_);
  }
  void reportOutOfMemory(int64_t, size_t, size_t, c10::Device) override {}
  bool memoryProfilingEnabled() const override { return true; }
  int64_t most() const { return most_; }

 private:
  int64_t held_ = 0, most_ = 0;
};

TEST_F(GpuStepRunnerTest, TakesNoMoreThanIsSaidBefore) {
  for (const int64_t batched : {16, 160}) {
    const StepLimits limits{960, 200, 16, batched};
    const GpuStepBytes said = gpu_step_bytes(decoder_, limits);
    GpuStepRunner runner(decoder_, limits, draw_kernel_double(), std::make_unique<RepeatedCalls>());
    EXPECT_EQ(runner.buffer_bytes(), said.buffers);
    RolloutConfig config;
    config.max_num_seqs = 16;
    config.max_num_batched_tokens = batched;
    const auto bytes = std::make_shared<TensorBytes>();
    {
      const c10::DebugInfoGuard counting(c10::DebugInfoKind::PROFILER_STATE, bytes);
      generate(runner, config, 60, requests(6, 12));
    }
    EXPECT_GT(runner.num_replays(), 0);
    EXPECT_GT(bytes->most(), 0);
    EXPECT_LE(bytes->most(), said.activations) << batched;
    EXPECT_GE(3 * bytes->most(), said.activations) << batched << ": too much is set aside";
  }
}

}  // namespace
}  // namespace trireme::rollout
