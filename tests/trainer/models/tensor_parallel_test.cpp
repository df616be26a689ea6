// A decoder split over ranks, against the same decoder whole. Ranks are threads.
#include "trainer/models/tensor_parallel.h"

#include <gtest/gtest.h>

#include <mutex>
#include <numeric>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "runtime/comm/local_communicator.h"
#include "trainer/models/decoder.h"

namespace trireme::models {
namespace {

DecoderShape shape_of(const std::string& family, int tp = 1) {
  DecoderShape shape;
  shape.model_type = family;
  shape.vocab_size = 83;  // of odd pieces
  shape.hidden_size = 48;
  shape.intermediate_size = 72;
  shape.num_hidden_layers = 2;
  shape.num_attention_heads = 12;
  shape.num_key_value_heads = tp == 3 ? 3 : 2;  // fewer than four or six ranks
  shape.head_dim = 4;
  shape.max_position_embeddings = 64;
  shape.initializer_range = 0.3;
  shape.qkv_bias = family != "qwen3";
  shape.qk_norm = family == "qwen3";
  shape.attention_output_bias = family == "llama";
  shape.tie_word_embeddings = family == "qwen2";
  return shape;
}

// Random biases and norms too, so that each of them counts.
void fill(ParameterSet& parameters, const DecoderShape& shape) {
  parameters.initialize(11, shape);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const ParameterSpec& spec = parameters.spec(i);
    if (spec.weight_decay()) continue;
    auto* values = parameters.parameter(i).mutable_data_ptr<float>();
    for_each_stretch(spec, 0, spec.numel(), [&](int64_t in_whole, int64_t in_slice, int64_t count) {
      for (int64_t k = 0; k < count; ++k)
        values[in_slice + k] += 0.1f * static_cast<float>((in_whole + k) * 7 % 11) - 0.5f;
    });
  }
}

// A prompt that two responses share, and one sequence alone.
ForwardBatch batch_of(int64_t vocabulary) {
  ForwardBatch batch;
  const auto add = [&](int32_t length, int32_t position, std::vector<SlotSpan> before) {
    const auto row = static_cast<int32_t>(batch.tokens.size());
    before.push_back({row, length});
    batch.segments.push_back({row, length, position, std::move(before)});
    for (int32_t i = 0; i < length; ++i) {
      batch.tokens.push_back(static_cast<int32_t>((row + i) * 37 % vocabulary));
      batch.positions.push_back(position + i);
      batch.slots.push_back(row + i);
    }
  };
  add(9, 0, {});
  add(5, 9, {{0, 9}});
  add(4, 9, {{0, 9}});
  add(1, 0, {});
  return batch;
}

const std::vector<int32_t> kRows{8, 8, 9, 12, 13, 15, 18}, kTokens{0, 82, 40, 41, 3, 60, 27};

struct Outcome {
  at::Tensor hidden, logits, log_probs, entropy, gradient;
};

Outcome outcome(const DecoderShape& shape, ParameterSet& parameters, TensorParallel tp, bool recompute) {
  Decoder decoder(shape, parameters, at::kFloat, true, tp);
  decoder.recompute_blocks(recompute);
  const ForwardBatch batch = batch_of(shape.vocab_size);
  Outcome result;
  result.hidden = decoder.forward_packed(batch);
  result.logits = decoder.logits(result.hidden.detach(), kRows);
  const auto [log_probs, entropy] =
      decoder.token_log_probs(result.hidden, kRows, kTokens, 0.7, /*entropy_gradient=*/true);
  (log_probs.sum() + 0.3 * entropy.sum()).backward();
  result.log_probs = log_probs.detach();
  result.entropy = entropy.detach();
  result.gradient = parameters.flat_gradient();
  return result;
}

double apart(const at::Tensor& a, const at::Tensor& b) {
  return at::linalg_vector_norm(a - b).item<double>() / (1e-12 + at::linalg_vector_norm(b).item<double>());
}

struct Case {
  const char* family;
  int tp;
  bool recompute;
};

class TensorParallelism : public testing::TestWithParam<Case> {};

TEST_P(TensorParallelism, GivesTheWholeModelsNumbersAndGradients) {
  const auto [family, tp, recompute] = GetParam();
  const DecoderShape shape = shape_of(family, tp);
  ParameterSet whole(parameter_specs(shape), at::kCPU);
  fill(whole, shape);
  whole.enable_gradients();
  const Outcome expected = outcome(shape, whole, {}, false);

  // Slices' gradients put together: parts of one sum are added.
  const at::Tensor total = at::zeros_like(expected.gradient);
  std::mutex mutex;
  comm::LocalWorld::run(tp, [&, tp = tp, recompute = recompute](comm::Communicator& group) {
    ParameterSet slices(parameter_specs(shape, tp, group.rank()), at::kCPU);
    fill(slices, shape);
    slices.enable_gradients();
    const Outcome mine = outcome(shape, slices, {&group}, recompute);
    const std::lock_guard lock(mutex);
    EXPECT_LT(apart(mine.hidden.detach(), expected.hidden.detach()), 1e-5);
    EXPECT_LT(apart(mine.logits, expected.logits), 1e-5);
    EXPECT_LT(apart(mine.log_probs, expected.log_probs), 1e-5);
    EXPECT_LT(apart(mine.entropy, expected.entropy), 1e-5);
    for (size_t i = 0; i < slices.size(); ++i) {
      const ParameterSpec& spec = slices.spec(i);
      const auto* from = slices.flat_gradient().const_data_ptr<float>() + slices.offset(i);
      auto* to = total.mutable_data_ptr<float>() + whole.offset(i);
      for_each_stretch(spec, 0, spec.numel(), [&](int64_t in_whole, int64_t in_slice, int64_t count) {
        for (int64_t k = 0; k < count; ++k) to[in_whole + k] += from[in_slice + k];
      });
    }
  });
  for (size_t i = 0; i < whole.size(); ++i) {
    const auto part = [&](const at::Tensor& flat) {
      return flat.narrow(0, whole.offset(i), whole.spec(i).numel());
    };
    EXPECT_LT(apart(part(total), part(expected.gradient)), 1e-5) << whole.spec(i).name;
  }
}

INSTANTIATE_TEST_SUITE_P(, TensorParallelism,
                         testing::Values(Case{"qwen2", 2, false}, Case{"qwen2", 3, false},
                                         Case{"qwen3", 2, true}, Case{"qwen3", 4, false},
                                         Case{"llama", 4, true}, Case{"llama", 6, false},
                                         Case{"qwen2", 12, false}),
                         [](const auto& info) {
                           return std::string(info.param.family) + "Tp" + std::to_string(info.param.tp) +
                                  (info.param.recompute ? "Recomputed" : "");
                         });

// Rollout keeps all rows on all ranks, training shares them out: a row has the same bits in both, and in any
// chunking.
TEST(TensorParallel, RowsHaveTheSameBitsInRolloutAndInTraining) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16})
    for (const int tp : {2, 3, 4}) {
      const DecoderShape shape = shape_of(tp == 3 ? "qwen2" : "qwen3", tp);
      comm::LocalWorld::run(tp, [&](comm::Communicator& group) {
        ParameterSet slices(parameter_specs(shape, tp, group.rank()), at::kCPU);
        fill(slices, shape);
        const Decoder decoder(shape, slices, dtype, true, {&group});
        const at::NoGradGuard no_gradients;
        ForwardBatch batch = batch_of(shape.vocab_size);
        const at::Tensor packed = decoder.forward_packed(batch);
        KvSlots kv = decoder.make_kv_slots(batch.num_rows());
        EXPECT_TRUE(decoder.forward_paged(batch, kv).equal(packed));
        // The first segment row by row.
        KvSlots again = decoder.make_kv_slots(batch.num_rows());
        for (int32_t row = 0; row < 9; ++row) {
          ForwardBatch one;
          one.tokens = {batch.tokens[row]};
          one.positions = {row};
          one.slots = {row};
          one.segments.push_back({0, 1, row, {{0, row + 1}}});
          EXPECT_TRUE(decoder.forward_paged(one, again).equal(packed.narrow(0, row, 1))) << row;
        }
      });
    }
}

// The first layout's memory is what the runtime's arithmetic says it is: resharding relies on it.
TEST(TensorParallel, SlicesLieWhereTheLayoutSaysTheyDo) {
  for (const char* family : {"qwen2", "qwen3", "llama"}) {
    const DecoderShape shape = shape_of(family);
    const auto tensors = tensor_specs(shape);
    for (const int tp : {1, 2, 4}) {
      std::vector<int> ranks(tp);
      std::iota(ranks.begin(), ranks.end(), 0);
      const tensors::Layout layout{"actor", placement::Mesh::of(ranks, {.tp = tp}), tensor_splits(shape),
                                   comm::DType::f32};
      EXPECT_TRUE(tensors::check(tensors, layout, tp).empty());
      const tensors::ShardMap map(tensors, layout);
      for (int t = 0; t < tp; ++t) {
        const ParameterSet set(parameter_specs(shape, tp, t), at::kCPU);
        ASSERT_EQ(set.num_blocks(), map.num_blocks());
        for (int b = 0; b < set.num_blocks(); ++b) EXPECT_EQ(set.block_numel(b), map.stored(t, b));
        for (size_t i = 0; i < set.size(); ++i) {
          const int tensor = static_cast<int>(i);
          const tensors::Strided place = map.place(0, t, tensor, map.slice(t, tensor));
          EXPECT_TRUE(place.contiguous());
          EXPECT_EQ(place.numel(), set.spec(i).numel());
          EXPECT_EQ(place.offset, set.offset(i) - set.block_begin(set.spec(i).block)) << set.spec(i).name;
        }
      }
    }
  }
}

TEST(TensorParallel, ALayoutThatDoesNotFitNamesTheSizesThatDo) {
  const DecoderShape shape = shape_of("qwen2");
  const tensors::Layout layout{
      "actor", {.tp = 5, .ranks = {0, 1, 2, 3, 4}}, tensor_splits(shape), comm::DType::f32};
  EXPECT_FALSE(tensors::check(tensor_specs(shape), layout, 5).empty());
  EXPECT_EQ(tensors::tp_sizes_that_fit(tensor_specs(shape), tensor_splits(shape), 12),
            (std::vector<int>{1, 2, 4, 6, 12}));
}

}  // namespace
}  // namespace trireme::models
