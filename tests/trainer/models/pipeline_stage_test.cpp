#include "trainer/models/pipeline_stage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "runtime/base/error.h"

namespace trireme::models {
namespace {

DecoderShape shape_of(bool tied, int64_t vocabulary, int64_t layers) {
  DecoderShape shape;
  shape.vocab_size = vocabulary;
  shape.hidden_size = 64;
  shape.intermediate_size = 128;
  shape.num_hidden_layers = layers;
  shape.num_attention_heads = 4;
  shape.num_key_value_heads = 2;
  shape.head_dim = 16;
  shape.tie_word_embeddings = tied;
  return shape;
}

TEST(ShareLayers, ALargeVocabularyTakesLayersOffTheLastStage) {
  const auto count = [](const DecoderShape& shape, int stages) {
    std::vector<int64_t> counts;
    for (const placement::LayerRange& range : layers_of_stages(shape, stages)) counts.push_back(range.count());
    return counts;
  };
  // A layer costs 64 * (2 * 6 * 16 + 3 * 128) = 64 * 576 a row, the head 64 * vocab_size.
  EXPECT_EQ(count(shape_of(false, 16, 8), 4), (std::vector<int64_t>{2, 2, 2, 2}));
  EXPECT_EQ(count(shape_of(false, 576, 7), 4), (std::vector<int64_t>{2, 2, 2, 1}));
  EXPECT_EQ(count(shape_of(false, 3 * 576, 13), 4), (std::vector<int64_t>{4, 4, 4, 1}));
  DecoderShape critic = shape_of(false, 576, 8);
  critic.head = Head::value;
  EXPECT_EQ(count(critic, 4), (std::vector<int64_t>{2, 2, 2, 2}));
}

TEST(ShareLayers, RefusesMoreStagesThanLayers) {
  try {
    layers_of_stages(shape_of(false, 16, 3), 4);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_config);
    EXPECT_NE(error.message().find("set pp to at most 3"), std::string::npos) << error.message();
  }
}

TEST(PipelineStage, StagesTogetherHaveEveryParameterOnce) {
  for (const bool tied : {false, true})
    for (const Head head : {Head::language_model, Head::value})
      for (const int tp : {1, 2})
        for (const int stages : {1, 2, 3, 5}) {
          SCOPED_TRACE(testing::Message() << tied << " tp " << tp << " stages " << stages);
          DecoderShape shape = shape_of(tied, 200, 5);
          shape.head = head;
          const auto whole = parameter_specs(shape, tp, tp - 1);
          std::multiset<std::string> found;
          for (int s = 0; s < stages; ++s) {
            const PipelineStage stage{s, stages};
            int block = -1;
            for (const ParameterSpec& spec : parameter_specs(shape, tp, tp - 1, stage)) {
              found.insert(spec.name);
              EXPECT_EQ(whole.at(static_cast<size_t>(spec.index)).name, spec.name);
              EXPECT_EQ(whole.at(static_cast<size_t>(spec.index)).shape, spec.shape);
              EXPECT_TRUE(spec.block == block || spec.block == block + 1) << spec.name;
              block = spec.block;
            }
            EXPECT_EQ(block + 1, static_cast<int>(blocks_of_stages(shape, stages)[s].size()));
          }
          for (const ParameterSpec& spec : whole) {
            const bool twice = tied && head == Head::language_model && stages > 1 && spec.index == 0;
            EXPECT_EQ(found.count(spec.name), twice ? 2 : 1) << spec.name;
          }
          EXPECT_EQ(holds_tied_copy(shape, {stages - 1, stages}),
                    tied && head == Head::language_model && stages > 1);
        }
}

TEST(PipelineStage, ItsBlocksAreALayout) {
  for (const bool tied : {false, true}) {
    const DecoderShape shape = shape_of(tied, 200, 5);
    const auto tensors = tensor_specs(shape);
    tensors::Layout layout{"actor", placement::Mesh::of({0, 1, 2}, {.pp = 3}), tensor_splits(shape)};
    layout.blocks_of_stages = blocks_of_stages(shape, 3);
    EXPECT_TRUE(tensors::check(tensors, layout, 3).empty());
    const tensors::ShardMap map(tensors, layout);
    EXPECT_EQ(map.stages_of(0), tied ? (std::vector<int>{0, 2}) : std::vector<int>{0});
  }
}

}  // namespace
}  // namespace trireme::models
