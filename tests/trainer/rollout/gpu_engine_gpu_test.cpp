// The engine on a real GPU: steps, graphs and draws.
#include <gtest/gtest.h>

#include <optional>
#include <random>

#include <ATen/Context.h>

#include "trainer/models/gpu_kernels.h"
#include "trainer/rollout/gpu_step_runner.h"
#include "trainer/rollout/scheduler.h"

namespace trireme::rollout {
namespace {

std::optional<std::string> no_gpu() {
  if (!models::gpu_kernels()) return "this build has no GPU kernels";
  if (!at::globalContext().hasCUDA()) return "no usable GPU";
  return std::nullopt;
}

models::DecoderShape small_shape() {
  models::DecoderShape shape;
  shape.vocab_size = 4099;
  shape.hidden_size = 448;
  shape.intermediate_size = 512;
  shape.num_hidden_layers = 3;
  shape.num_attention_heads = 7;
  shape.num_key_value_heads = 1;
  shape.head_dim = 64;
  shape.qkv_bias = true;
  shape.max_position_embeddings = 2048;
  shape.initializer_range = 0.1;
  return shape;
}

struct Model {
  explicit Model(at::Device device)
      : shape(small_shape()),
        parameters(models::parameter_specs(shape), device),
        decoder(shape, parameters, at::kFloat) {
    parameters.initialize(5, shape);
    decoder.refresh();
  }
  models::DecoderShape shape;
  models::ParameterSet parameters;
  models::Decoder decoder;
};

std::vector<Request> greedy_requests() {
  std::mt19937 random(3);
  std::vector<Request> requests(11);
  for (size_t r = 0; r < requests.size(); ++r) {
    requests[r].id = static_cast<int64_t>(r);
    requests[r].greedy = true;
    requests[r].max_new_tokens = 20 + static_cast<int64_t>(random() % 30);
    requests[r].prompt.resize(r == 0 ? 400 : 1 + random() % 90);
    for (int32_t& token : requests[r].prompt) token = static_cast<int32_t>(random() % 4099);
  }
  return requests;
}

std::vector<Completion> generate(StepRunner& runner, const std::vector<Request>& requests) {
  RolloutConfig config;
  config.max_num_seqs = 8;
  const StopCondition stops({}, 4099);
  std::vector<Completion> completions;
  Scheduler scheduler(config, 300, requests, stops, completions);
  while (!scheduler.is_done()) {
    const StepPlan& plan = scheduler.schedule();
    scheduler.retire(runner.run(plan, scheduler), {});
  }
  return completions;
}

TEST(GpuEngine, GraphsAndCallsAndTheCpuAgree) {
  if (const auto reason = no_gpu()) GTEST_SKIP() << *reason;
  const StepLimits limits{300 * 16, 512, 8};
  const auto requests = greedy_requests();
  const Model on_cpu(at::kCPU), on_gpu(at::Device(at::kCUDA, 0));
  const auto expected = generate(*make_step_runner(on_cpu.decoder, limits), requests);
  GpuStepRunner calls(on_gpu.decoder, limits, draw_kernel(), nullptr);
  GpuStepRunner graphs(on_gpu.decoder, limits, draw_kernel(), make_step_graphs(on_gpu.decoder.device()));
  const auto by_calls = generate(calls, requests), by_graphs = generate(graphs, requests);
  EXPECT_GT(graphs.num_replays(), 10);
  // Where two tokens are all but equally likely, products that round differently may part the ways: up to
  // there the histories are the same, and so must the likelihoods be.
  const auto compare = [](const Response& a, const Response& b) {
    size_t same = 0;
    while (same < a.tokens.size() && same < b.tokens.size() && a.tokens[same] == b.tokens[same]) {
      EXPECT_NEAR(a.log_probs[same], b.log_probs[same], 2e-3);
      EXPECT_NEAR(a.entropies[same], b.entropies[same], 2e-3);
      ++same;
    }
    return same;
  };
  size_t same = 0, all = 0;
  for (size_t r = 0; r < requests.size(); ++r) {
    const Response& response = expected[r].responses[0];
    same += compare(by_calls[r].responses[0], response) + compare(by_graphs[r].responses[0], response);
    all += 2 * response.tokens.size();
  }
  EXPECT_GT(same, all * 9 / 10);
}

}  // namespace
}  // namespace trireme::rollout
