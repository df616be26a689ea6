#include "runtime/placement/layer_shares.h"

#include <algorithm>
#include <limits>

#include "runtime/base/error.h"

namespace trireme::placement {
namespace {

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

}  // namespace trireme::placement
