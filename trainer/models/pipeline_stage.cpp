#include "trainer/models/pipeline_stage.h"

#include <algorithm>
#include <limits>

#include "runtime/base/error.h"

namespace trireme::models {
namespace {

bool is_tied(const DecoderShape& shape) {
  return shape.tie_word_embeddings && shape.head == Head::language_model;
}

// The least of all ways to cut [0, num_layers) in `stages` parts that are not empty, where a part costs
// cost(stage, layers) and costs are put together by `join`. Returns the parts' lengths.
template <typename Cost, typename Join>
std::vector<int64_t> best_cut(int64_t num_layers, int stages, const Cost& cost, const Join& join) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  // least[s][n]: of the first n layers on the first s stages; taken[s][n]: what the last of those has.
  std::vector<std::vector<double>> least(stages + 1, std::vector<double>(num_layers + 1, kNever));
  std::vector<std::vector<int64_t>> taken(stages + 1, std::vector<int64_t>(num_layers + 1));
  least[0][0] = 0;
  for (int s = 1; s <= stages; ++s)
    for (int64_t n = s; n <= num_layers; ++n)
      for (int64_t last = n - (s - 1); last >= 1; --last) {  // among equals the later stages have fewer
        const double total = join(least[s - 1][n - last], cost(s - 1, last));
        if (total > least[s][n] || total == kNever) continue;
        least[s][n] = total;
        taken[s][n] = last;
      }
  std::vector<int64_t> lengths(stages);
  for (int64_t s = stages, n = num_layers; s > 0; --s) n -= lengths[s - 1] = taken[s][n];
  return lengths;
}

}  // namespace

LayerCosts layer_costs(const DecoderShape& shape) {
  const auto hidden = static_cast<double>(shape.hidden_size);
  const auto heads = static_cast<double>(shape.num_attention_heads + shape.num_key_value_heads);
  LayerCosts costs;
  // q and o, k and v, gate, up and down; attention depends on the rows and is left out.
  costs.layer = hidden * (2 * heads * static_cast<double>(shape.head_dim) +
                          3 * static_cast<double>(shape.intermediate_size));
  costs.before = hidden;
  costs.behind = hidden * (shape.head == Head::value ? 1 : static_cast<double>(shape.vocab_size));
  return costs;
}

std::vector<LayerRange> share_layers(int64_t num_layers, int stages, const LayerCosts& costs) {
  if (stages < 1 || stages > num_layers)
    fail(ErrorCode::invalid_config,
         "pp = {} stages need a layer each, and the model has {}: set pp to at most {}", stages, num_layers,
         num_layers);
  const auto cost = [&](int stage, int64_t layers) {
    return costs.layer * static_cast<double>(layers) + (stage == 0 ? costs.before : 0) +
           (stage == stages - 1 ? costs.behind : 0);
  };
  const auto most = [](double a, double b) { return std::max(a, b); };
  double bottleneck = 0;
  const std::vector<int64_t> cheapest = best_cut(num_layers, stages, cost, most);
  for (int s = 0; s < stages; ++s) bottleneck = std::max(bottleneck, cost(s, cheapest[s]));
  const auto square = [&](int stage, int64_t layers) {
    const double all = cost(stage, layers);
    return all > bottleneck ? std::numeric_limits<double>::infinity() : all * all;
  };
  const auto sum = [](double a, double b) { return a + b; };
  std::vector<LayerRange> ranges;
  int64_t first = 0;
  for (const int64_t length : best_cut(num_layers, stages, square, sum)) {
    ranges.push_back({first, first + length});
    first += length;
  }
  return ranges;
}

std::vector<LayerRange> layers_of_stages(const DecoderShape& shape, int stages) {
  return share_layers(shape.num_hidden_layers, stages, layer_costs(shape));
}

std::vector<std::vector<int>> blocks_of_stages(const DecoderShape& shape, int stages) {
  std::vector<std::vector<int>> blocks;
  for (const LayerRange& layers : layers_of_stages(shape, stages)) {
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
