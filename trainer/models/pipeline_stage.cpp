#include "trainer/models/pipeline_stage.h"

#include <algorithm>

namespace trireme::models {
namespace {

bool is_tied(const DecoderShape& shape) {
  return shape.tie_word_embeddings && shape.head == Head::language_model;
}

}  // namespace

placement::LayerCosts layer_costs(const DecoderShape& shape) {
  const auto hidden = static_cast<double>(shape.hidden_size);
  const auto heads = static_cast<double>(shape.num_attention_heads + shape.num_key_value_heads);
  placement::LayerCosts costs;
  // q and o, k and v, gate, up and down; attention depends on the rows and is left out.
  costs.layer = hidden * (2 * heads * static_cast<double>(shape.head_dim) +
                          3 * static_cast<double>(shape.intermediate_size));
  costs.before = hidden;
  costs.behind = hidden * (shape.head == Head::value ? 1 : static_cast<double>(shape.vocab_size));
  return costs;
}

std::vector<placement::LayerRange> layers_of_stages(const DecoderShape& shape, int stages) {
  return placement::share_layers(shape.num_hidden_layers, stages, layer_costs(shape));
}

std::vector<std::vector<int>> blocks_of_stages(const DecoderShape& shape, int stages) {
  std::vector<std::vector<int>> blocks;
  for (const placement::LayerRange& layers : layers_of_stages(shape, stages)) {
    std::vector<int>& own = blocks.emplace_back();
    const PipelineStage stage{static_cast<int>(blocks.size()) - 1, stages};
    if (stage.is_first() || holds_tied_copy(shape, stage)) own.push_back(0);
    for (int64_t layer = layers.first; layer < layers.end; ++layer)
      own.push_back(static_cast<int>(layer) + 1);
    if (stage.is_last()) own.push_back(static_cast<int>(shape.num_hidden_layers) + 1);
  }
  return blocks;
}

bool holds_tied_copy(const DecoderShape& shape, const PipelineStage& stage) {
  return is_tied(shape) && stage.is_last() && !stage.is_first();
}

std::vector<ParameterSpec> parameter_specs(const DecoderShape& shape, int tp, int t,
                                           const PipelineStage& stage) {
  std::vector<ParameterSpec> specs = parameter_specs(shape, tp, t);
  if (stage.count == 1) return specs;
  const std::vector<int> blocks = blocks_of_stages(shape, stage.count)[stage.index];
  std::vector<ParameterSpec> own;
  for (ParameterSpec& spec : specs) {
    const auto found = std::lower_bound(blocks.begin(), blocks.end(), spec.block);
    if (found == blocks.end() || *found != spec.block) continue;
    spec.block = static_cast<int>(found - blocks.begin());
    own.push_back(std::move(spec));
  }
  return own;
}

}  // namespace trireme::models
