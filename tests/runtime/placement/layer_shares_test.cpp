#include "runtime/placement/layer_shares.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>

#include "runtime/base/error.h"

namespace trireme::placement {
namespace {

std::vector<double> costs_of(const std::vector<int64_t>& lengths, const LayerCosts& costs) {
  std::vector<double> all;
  for (const int64_t length : lengths) all.push_back(costs.layer * static_cast<double>(length));
  all.front() += costs.before;
  all.back() += costs.behind;
  return all;
}

// The costliest stage, then the sum of squares, of the best of all ways there are.
std::pair<double, double> best(int64_t layers, int stages, const LayerCosts& costs) {
  std::pair<double, double> least{1e300, 1e300};
  std::vector<int64_t> lengths;
  const std::function<void(int64_t)> go = [&](int64_t left) {
    if (static_cast<int>(lengths.size()) == stages - 1) {
      lengths.push_back(left);
      const auto all = costs_of(lengths, costs);
      const double most = *std::max_element(all.begin(), all.end());
      least = std::min(least, {most, std::inner_product(all.begin(), all.end(), all.begin(), 0.0)});
      lengths.pop_back();
      return;
    }
    for (int64_t length = 1; length < left; ++length) {
      lengths.push_back(length);
      go(left - length);
      lengths.pop_back();
    }
  };
  go(layers);
  return least;
}

TEST(ShareLayers, IsAsEvenAsAnyWay) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 400; ++round) {
    const auto layers = static_cast<int64_t>(1 + random() % 11);
    const int stages = 1 + static_cast<int>(random() % static_cast<uint64_t>(layers));
    const LayerCosts costs{1.0 + static_cast<double>(random() % 3), static_cast<double>(random() % 4) / 2,
                           static_cast<double>(random() % 12) / 2};
    SCOPED_TRACE(testing::Message() << layers << " layers, " << stages << " stages, " << costs.layer << " "
                                    << costs.before << " " << costs.behind);
    const auto ranges = share_layers(layers, stages, costs);
    ASSERT_EQ(ranges.size(), static_cast<size_t>(stages));
    std::vector<int64_t> lengths;
    int64_t first = 0;
    for (const LayerRange& range : ranges) {
      EXPECT_EQ(range.first, first);
      EXPECT_GE(range.count(), 1);
      lengths.push_back(range.count());
      first = range.end;
    }
    EXPECT_EQ(first, layers);
    const auto all = costs_of(lengths, costs);
    const auto [most, squares] = best(layers, stages, costs);
    EXPECT_DOUBLE_EQ(*std::max_element(all.begin(), all.end()), most);
    EXPECT_DOUBLE_EQ(std::inner_product(all.begin(), all.end(), all.begin(), 0.0), squares);
  }
}

TEST(ShareLayers, RefusesMoreStagesThanLayers) {
  try {
    share_layers(3, 4, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_config);
  }
}

}  // namespace
}  // namespace trireme::placement
