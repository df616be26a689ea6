// Sequences split over ranks, against one rank. Ranks are threads.
#include "trainer/models/context_parallel.h"

#include <gtest/gtest.h>

#include <mutex>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "gpu_kernels_double.h"
#include "runtime/comm/local_communicator.h"
#include "trainer/models/decoder.h"
#include "trainer/models/device_ops.h"

namespace trireme::models {
namespace {

DecoderShape shape_of(int64_t heads, int64_t kv_heads, int64_t head_dim = 4) {
  DecoderShape shape;
  shape.model_type = "qwen3";
  shape.vocab_size = 83;
  shape.hidden_size = 32;
  shape.intermediate_size = 48;
  shape.num_hidden_layers = 2;
  shape.num_attention_heads = heads;
  shape.num_key_value_heads = kv_heads;
  shape.head_dim = head_dim;
  shape.max_position_embeddings = 512;
  shape.initializer_range = 0.3;
  shape.qk_norm = true;
  return shape;
}

// Long and short histories, two of them with a common prompt.
struct Batch {
  ForwardBatch rows;
  std::vector<int32_t> at, tokens;  // what is judged

  explicit Batch(int ranks, bool tiny = false) {
    const auto add = [&](int32_t length, int32_t position, std::vector<SlotSpan> before) {
      const auto row = static_cast<int32_t>(rows.tokens.size());
      before.push_back({row, length});
      rows.segments.push_back({row, length, position, std::move(before)});
      for (int32_t i = 0; i < length; ++i) {
        rows.tokens.push_back((row * 7 + i * 37) % 83);
        rows.positions.push_back(position + i);
        rows.slots.push_back(row + i);
        if ((row + i) % 3 == 0) at.push_back(row + i);
      }
    };
    if (tiny) {
      add(2, 0, {});
    } else {
      add(150, 0, {});
      add(97, 150, {{0, 150}});
      add(1, 150, {{0, 150}});
      add(230, 0, {});
      add(3, 0, {});
    }
    at.push_back(at.front());  // one row may be asked twice
    for (size_t i = 0; i < at.size(); ++i) tokens.push_back(static_cast<int32_t>(i * 29 % 83));
    const std::vector<int32_t> place = deal_rows(rows, ranks);
    for (int32_t& row : at) row = place[static_cast<size_t>(row)];
  }
};

struct Outcome {
  at::Tensor log_probs, entropy, gradient;
};

Outcome outcome(const DecoderShape& shape, at::ScalarType dtype, TensorParallel tp, ContextParallel cp,
                bool recompute, bool tiny = false) {
  ParameterSet parameters(parameter_specs(shape, tp.size(), tp.rank()), at::kCPU);
  parameters.initialize(11, shape);
  parameters.enable_gradients();
  Decoder decoder(shape, parameters, dtype, true, tp, cp);
  decoder.recompute_blocks(recompute);
  const Batch batch(cp.size(), tiny);
  const auto [log_probs, entropy] =
      decoder.token_log_probs(decoder.forward_packed(batch.rows), batch.at, batch.tokens, 0.7, true);
  (log_probs.pow(2).sum() + 0.3 * entropy.sum()).backward();
  return {log_probs.detach(), entropy.detach(), parameters.flat_gradient()};
}

double apart(const at::Tensor& a, const at::Tensor& b) {
  return at::linalg_vector_norm(a - b).item<double>() / (1e-12 + at::linalg_vector_norm(b).item<double>());
}

struct Case {
  int cp;
  int64_t heads, kv_heads;
  bool ring, recompute, bf16 = false, tiny = false;
};

class ContextParallelism : public testing::TestWithParam<Case> {};

TEST_P(ContextParallelism, GivesOneRanksLogProbsBitForBitAndItsGradients) {
  const Case& setting = GetParam();
  const DecoderShape shape = shape_of(setting.heads, setting.kv_heads);
  const at::ScalarType dtype = setting.bf16 ? at::kBFloat16 : at::kFloat;
  const Outcome expected = outcome(shape, dtype, {}, {}, false, setting.tiny);
  at::Tensor total, again;
  for (at::Tensor* gradient : {&total, &again}) {
    std::vector<at::Tensor> parts(static_cast<size_t>(setting.cp));
    comm::LocalWorld::run(setting.cp, [&](comm::Communicator& group) {
      const Outcome mine = outcome(shape, dtype, {}, {&group, setting.ring}, setting.recompute, setting.tiny);
      EXPECT_TRUE(mine.log_probs.equal(expected.log_probs));
      EXPECT_TRUE(mine.entropy.equal(expected.entropy));
      parts[static_cast<size_t>(group.rank())] = mine.gradient;
    });
    *gradient = at::zeros_like(parts[0]);
    for (const at::Tensor& part : parts) gradient->add_(part);
  }
  EXPECT_LT(apart(total, expected.gradient), setting.bf16 ? 2e-2 : 1e-5);
  EXPECT_TRUE(total.equal(again));
}

INSTANTIATE_TEST_SUITE_P(
    , ContextParallelism,
    testing::Values(Case{2, 8, 4, false, false}, Case{4, 8, 2, false, true}, Case{8, 8, 1, false, false},
                    Case{2, 8, 4, true, true}, Case{4, 8, 2, true, false}, Case{3, 8, 2, false, false},
                    Case{8, 4, 4, false, true}, Case{4, 8, 2, false, false, true},
                    Case{4, 8, 2, true, false, true}, Case{4, 8, 2, false, false, false, true},
                    Case{4, 8, 2, true, false, false, true}),
    [](const auto& info) {
      const Case& c = info.param;
      return fmt::format("Cp{}Heads{}Kv{}{}{}{}{}", c.cp, c.heads, c.kv_heads, c.ring ? "Ring" : "",
                         c.recompute ? "Recomputed" : "", c.bf16 ? "Bf16" : "", c.tiny ? "Tiny" : "");
    });

TEST(HeadShare, RepeatsKvHeadsAndRefusesWhatDoesNotDivide) {
  const auto share = [](int64_t heads, int64_t kv_heads, int ranks) {
    const auto dims = head_share({heads, kv_heads, 64}, ranks);
    return dims ? std::pair(dims->heads, dims->kv_heads) : std::pair<int64_t, int64_t>(0, 0);
  };
  EXPECT_EQ(share(28, 4, 2), std::pair(int64_t{14}, int64_t{2}));
  EXPECT_EQ(share(28, 4, 4), std::pair(int64_t{7}, int64_t{1}));
  EXPECT_EQ(share(14, 2, 14), std::pair(int64_t{1}, int64_t{1}));
  EXPECT_EQ(share(32, 8, 16), std::pair(int64_t{2}, int64_t{1}));
  EXPECT_EQ(share(14, 2, 4), std::pair(int64_t{0}, int64_t{0}));  // 14 heads on 4 ranks
  EXPECT_EQ(share(12, 4, 6), std::pair(int64_t{0}, int64_t{0}));  // two heads of three
  EXPECT_EQ(share(40, 8, 16), std::pair(int64_t{0}, int64_t{0}));
}

TEST(ContextParallel, TogetherWithTensorParallelismComesToItsLogProbs) {
  const DecoderShape shape = shape_of(8, 2);
  at::Tensor expected;
  comm::LocalWorld::run(2, [&](comm::Communicator& tp) {
    const Outcome mine = outcome(shape, at::kFloat, {&tp}, {}, false);
    if (tp.rank() == 0) expected = mine.log_probs;
  });
  for (const bool ring : {false, true}) {
    comm::LocalWorld replicas[] = {comm::LocalWorld(2), comm::LocalWorld(2)},
                     contexts[] = {comm::LocalWorld(2), comm::LocalWorld(2)};
    comm::LocalWorld::run(4, [&](comm::Communicator& world) {
      const int c = world.rank() / 2, t = world.rank() % 2;
      const Outcome mine = outcome(shape, at::kFloat, {&replicas[c].communicator(t)},
                                   {&contexts[t].communicator(c), ring}, true);
      EXPECT_TRUE(mine.log_probs.equal(expected));
    });
  }
}

// The double is one GPU: ranks take turns at it.
std::mutex one_gpu;
template <auto kernel, typename Task>
void in_turn(const Task& task, GpuStream stream) {
  const std::lock_guard lock(one_gpu);
  (gpu_kernels_double().*kernel)(task, stream);
}
const GpuKernels shared_double{in_turn<&GpuKernels::rms_norm>,  in_turn<&GpuKernels::qk_norm>,
                               in_turn<&GpuKernels::rotary>,    in_turn<&GpuKernels::silu_mul>,
                               in_turn<&GpuKernels::attention>, in_turn<&GpuKernels::softmax>};

// The kernels of a GPU, by their double: attention and rotation there, all else as on the CPU.
TEST(ContextParallel, GivesOneRanksNumbersByAGpusKernels) {
  const DecoderShape shape = shape_of(4, 2, 64);
  device::use_double(&shared_double);
  const Outcome expected = outcome(shape, at::kFloat, {}, {}, false);
  for (const bool ring : {false, true}) {
    at::Tensor sum = at::zeros_like(expected.gradient);
    std::mutex mutex;
    comm::LocalWorld::run(2, [&](comm::Communicator& group) {
      const Outcome mine = outcome(shape, at::kFloat, {}, {&group, ring}, false);
      EXPECT_LT(apart(mine.log_probs, expected.log_probs), 1e-6);
      const std::lock_guard lock(mutex);
      sum.add_(mine.gradient);
    });
    EXPECT_LT(apart(sum, expected.gradient), 1e-5);
  }
  device::use_double(nullptr);
}

TEST(ContextParallel, GivesACriticsValuesToAllRanks) {
  DecoderShape shape = shape_of(8, 2);
  shape.head = Head::value;
  const auto values = [&](ContextParallel cp) {
    ParameterSet parameters(parameter_specs(shape), at::kCPU);
    parameters.initialize(3, shape, 0.5);
    parameters.enable_gradients();
    Decoder decoder(shape, parameters, at::kFloat, true, {}, cp);
    const Batch batch(cp.size());
    const at::Tensor result = decoder.row_values(decoder.forward_packed(batch.rows), batch.at);
    result.pow(2).sum().backward();
    return std::pair(result.detach(), parameters.flat_gradient());
  };
  const auto [expected, gradient] = values({});
  at::Tensor sum = at::zeros_like(gradient);
  std::mutex mutex;
  comm::LocalWorld::run(4, [&, expected = expected](comm::Communicator& group) {
    const auto [mine, part] = values({&group});
    EXPECT_TRUE(mine.equal(expected));
    const std::lock_guard lock(mutex);
    sum.add_(part);
  });
  EXPECT_LT(apart(sum, gradient), 1e-5);
}

}  // namespace
}  // namespace trireme::models
