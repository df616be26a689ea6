#include "trainer/data/order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "runtime/base/error.h"

namespace trireme::data {
namespace {

// The first `steps` batches, end to end.
std::vector<int64_t> take(int64_t n, int64_t batch, int64_t steps, uint64_t seed, bool shuffle = true) {
  std::vector<int64_t> all;
  for (int64_t step = 0; step < steps; ++step) {
    const auto part = batch_indices(n, batch, step * batch, seed, shuffle);
    EXPECT_EQ(static_cast<int64_t>(part.size()), batch);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

std::vector<int64_t> epoch_of(const std::vector<int64_t>& all, int64_t n, int64_t epoch) {
  return {all.begin() + epoch * n, all.begin() + (epoch + 1) * n};
}

std::vector<int64_t> sorted(std::vector<int64_t> values) {
  std::sort(values.begin(), values.end());
  return values;
}

TEST(BatchIndices, VisitEachProblemOncePerEpochThoughBatchesStraddleEpochs) {
  for (const int64_t n : {1, 2, 3, 7, 64, 100, 1000})
    for (const int64_t batch : {1, 3, 32, 257}) {
      const int64_t epochs = 4, steps = (epochs * n + batch - 1) / batch;
      const auto all = take(n, batch, steps, 11);
      std::vector<int64_t> each(static_cast<size_t>(n));
      std::iota(each.begin(), each.end(), 0);
      for (int64_t epoch = 0; epoch < epochs; ++epoch)
        EXPECT_EQ(sorted(epoch_of(all, n, epoch)), each)
            << "n " << n << " batch " << batch << " epoch " << epoch;
    }
}

TEST(BatchIndices, DoNotDependOnTheBatchSize) {
  EXPECT_EQ(take(50, 5, 40, 3), take(50, 20, 10, 3));
}

TEST(BatchIndices, AreShuffledAnewInEachEpochAndForEachSeed) {
  const auto all = take(200, 200, 2, 1);
  EXPECT_NE(epoch_of(all, 200, 0), epoch_of(all, 200, 1));
  EXPECT_NE(take(200, 200, 1, 1), take(200, 200, 1, 2));
  EXPECT_EQ(take(200, 200, 1, 1), take(200, 200, 1, 1));
}

TEST(BatchIndices, KeepTheOrderOfTheFilesWithoutShuffle) {
  EXPECT_EQ(take(3, 2, 3, 9, false), (std::vector<int64_t>{0, 1, 2, 0, 1, 2}));
}

TEST(BatchIndices, AreFoundFarOnInALargeSet) {
  const auto indices = batch_indices(int64_t{1} << 40, 4, int64_t{1} << 52, 5, true);
  for (const int64_t index : indices) EXPECT_TRUE(index >= 0 && index < int64_t{1} << 40);
}

// A run that is stopped anywhere, and goes on with another batch size, takes what it would have taken.
TEST(BatchIndices, GoOnFromAPositionAsIfUndisturbed) {
  uint64_t state = 1;
  const auto below = [&](int64_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int64_t>((state >> 33) % static_cast<uint64_t>(n));
  };
  for (int round = 0; round < 500; ++round) {
    const int64_t n = 1 + below(300), total = 1 + below(4 * n);
    const uint64_t seed = state;
    const auto straight = batch_indices(n, total, 0, seed, true);
    std::vector<int64_t> pieces;
    while (static_cast<int64_t>(pieces.size()) < total) {
      const auto taken = static_cast<int64_t>(pieces.size());
      const auto part = batch_indices(n, std::min(1 + below(n + 20), total - taken), taken, seed, true);
      pieces.insert(pieces.end(), part.begin(), part.end());
    }
    ASSERT_EQ(pieces, straight) << n << " problems, seed " << seed;
  }
}

TEST(BatchIndices, RefuseAnEmptySetAndAPlaceBeyondAllBounds) {
  EXPECT_THROW(batch_indices(0, 4, 0, 0, true), Error);
  EXPECT_THROW(batch_indices(10, 4, -1, 0, true), Error);
  EXPECT_THROW(batch_indices(10, 4, std::numeric_limits<int64_t>::max() - 2, 0, true), Error);
}

// Every permutation of four must be about equally likely: 24 cells, 24,000 keys, so 1,000 +- 31 each.
TEST(Permute, ReachesEveryPermutationEquallyOften) {
  std::map<std::vector<int64_t>, int> counts;
  for (uint64_t key = 0; key < 24'000; ++key) {
    std::vector<int64_t> image;
    for (int64_t x = 0; x < 4; ++x) image.push_back(permute(x, 4, key));
    ++counts[image];
  }
  EXPECT_EQ(counts.size(), 24u);
  for (const auto& [image, count] : counts) EXPECT_NEAR(count, 1000, 160);
}

TEST(Permute, SpreadsNeighboursOverALargeSet) {
  const int64_t n = 1000;
  std::vector<int> counts(10);
  double distance = 0;
  for (uint64_t key = 0; key < 5000; ++key) {
    const int64_t first = permute(0, n, key), second = permute(1, n, key);
    ++counts[static_cast<size_t>(first * 10 / n)];
    distance += static_cast<double>(std::abs(first - second)) / 5000;
  }
  for (const int count : counts) EXPECT_NEAR(count, 500, 110);  // 5 standard deviations
  EXPECT_NEAR(distance, 333, 17);                               // n/3 for two independent places
}

}  // namespace
}  // namespace trireme::data
