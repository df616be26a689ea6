#include "trainer/costs/memory.h"

#include <gtest/gtest.h>

#include "trainer/sharding/activation_bytes.h"
#include "trainer/sharding/state_bytes.h"

namespace trireme::costs {
namespace {

models::DecoderShape shape_of(bool tied) {
  models::DecoderShape shape;
  shape.vocab_size = 512;
  shape.hidden_size = 64;
  shape.intermediate_size = 128;
  shape.num_hidden_layers = 4;
  shape.num_attention_heads = 8;
  shape.num_key_value_heads = 4;
  shape.head_dim = 8;
  shape.max_position_embeddings = 64;
  shape.tie_word_embeddings = tied;
  return shape;
}

ModelShape costs_of(const models::DecoderShape& shape) {
  ModelShape result{"test",
                    shape.vocab_size,
                    shape.hidden_size,
                    shape.intermediate_size,
                    shape.num_hidden_layers,
                    shape.num_attention_heads,
                    shape.num_key_value_heads,
                    shape.head_dim};
  result.tie_word_embeddings = shape.tie_word_embeddings;
  result.qkv_bias = shape.qkv_bias;
  result.attention_output_bias = shape.attention_output_bias;
  result.qk_norm = shape.qk_norm;
  result.value_head = shape.head == models::Head::value;
  return result;
}

// The trainer's own account, which its tests hold against the tensors that exist.
TEST(StateBytes, AreThoseOfTheTrainer) {
  for (const bool tied : {false, true})
    for (const int element : {2, 4})
      for (const int shards : {1, 3, 4, 64})
        for (const int tp : {1, 2, 4})
          for (const int stage : {0, 1, 2, 3})
            for (const bool packed : {false, true}) {
              const models::DecoderShape shape = shape_of(tied);
              const StateBytes said =
                  state_bytes(costs_of(shape), {.dp = shards, .tp = tp, .zero_stage = stage},
                              {.element = element, .on_cpu = packed});
              const auto own = sharding::state_bytes(shape, element, shards, tp, stage, packed);
              EXPECT_EQ(said.masters, own.masters);
              EXPECT_EQ(said.moments, own.moments);
              EXPECT_EQ(said.gradient, own.gradient);
              EXPECT_EQ(said.weights, own.weights);
              EXPECT_EQ(said.packed, own.packed);
            }
}

TEST(StateBytes, ContextParallelRanksShareOutAsReplicasDo) {
  const ModelShape shape = costs_of(shape_of(false));
  const StateBytes dp = state_bytes(shape, {.dp = 8, .zero_stage = 2}, {}),
                   cp = state_bytes(shape, {.dp = 2, .cp = 4, .zero_stage = 2}, {});
  EXPECT_EQ(dp.total(), cp.total());
}

TEST(StateBytes, PipelineStagesShareOutLayers) {
  const ModelShape shape = find_shape("llama-3.1-70b");
  const auto state = [&](int64_t pp) { return state_bytes(shape, {.pp = pp}, {}).total(); };
  for (const int64_t pp : {2, 4, 8}) {
    EXPECT_LT(state(pp), 1.25 * static_cast<double>(state(1)) / static_cast<double>(pp));
    EXPECT_GE(state(pp), state(1) / pp);
  }
}

// The same of a pass; where the trainer's account counts words for each row, this one counts none.
TEST(PassBytes, AreThoseOfTheTrainer) {
  for (const bool tied : {false, true})
    for (const int element : {2, 4})
      for (const int tp : {1, 2})
        for (const int cp : {1, 2, 3, 4})  // by heads, 3 by a ring; with 4 a kv head is there twice
          for (const bool recompute : {false, true})
            for (const int64_t rows : {1024, 4096}) {
              models::DecoderShape shape = shape_of(tied);
              shape.num_key_value_heads = 2;
              shape.hidden_size = 512;
              shape.intermediate_size = 1536;
              shape.head_dim = 64;
              shape.num_hidden_layers = 12;
              const PassBytes said =
                  training_pass_bytes(costs_of(shape), {.cp = cp, .tp = tp, .recompute = recompute},
                                      {.element = element, .on_cpu = true}, rows, rows);
              const auto own = static_cast<double>(sharding::activation_bytes(
                  shape, {rows, rows, element, tp, cp, /*ring=*/false, recompute}));
              const double ratio = static_cast<double>(said.kept + said.transient) / own;
              EXPECT_GT(ratio, 0.94);  // words, which weigh most where rows are narrow
              EXPECT_LT(ratio, 1.05) << element << " bytes, tp " << tp << ", cp " << cp << ", recompute "
                                     << recompute << ", " << rows << " rows";
            }
}

TEST(PassBytes, AfterThemBothEndsOfAPipelineSumATiedEmbedding) {
  const ModelShape shape = find_shape("qwen2.5-0.5b");
  const auto update = [&](const Layout& layout) {
    return training_pass_bytes(shape, layout, {.element = 2, .on_cpu = true}, 1024, 256).update;
  };
  const int64_t embedding = shape.vocab_size * shape.hidden_size;
  EXPECT_LT(update({}), embedding);
  EXPECT_EQ(update({.pp = 2}), 4 * embedding);
  EXPECT_EQ(update({.pp = 2, .exact = true}), 8 * embedding);
  EXPECT_EQ(update({.dp = 4, .pp = 2, .zero_stage = 1}), embedding);
}

}  // namespace
}  // namespace trireme::costs
