#include "trainer/rollout/philox.h"

#include <gtest/gtest.h>

#include <set>

namespace trireme::rollout {
namespace {

// Known answers that the authors of Random123 publish for philox4x32, 10 rounds.
static_assert(philox4x32({0, 0, 0, 0}, {0, 0}) ==
              PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
static_assert(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) ==
              PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
static_assert(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
              PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});

TEST(Philox, EveryPartOfTheNameChangesTheNumber) {
  std::set<double> numbers;
  size_t count = 0;
  for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32, ~uint64_t{0}}) {
    for (const int64_t step : {int64_t{0}, int64_t{1}, int64_t{1} << 32}) {
      for (const int64_t id : {int64_t{0}, int64_t{1}, int64_t{1} << 32}) {
        for (const int64_t sample : {0, 1, 2}) {
          for (const int64_t position : {0, 1, 2}) {
            numbers.insert(sampling_uniform(sampling_key(seed, step), id, sample, position));
            ++count;
          }
        }
      }
    }
  }
  EXPECT_EQ(numbers.size(), count);
}

TEST(Philox, UniformNumbersFillTheUnitIntervalEvenly) {
  const PhiloxKey key = sampling_key(7, 3);
  constexpr int kDraws = 100000, kBins = 100;
  int bins[kBins] = {};
  for (int i = 0; i < kDraws; ++i) {
    const double u = sampling_uniform(key, i / 1000, i % 10, i / 10 % 100);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    ++bins[static_cast<int>(u * kBins)];
  }
  double chi_square = 0;
  for (const int count : bins) chi_square += (count - 1000.0) * (count - 1000.0) / 1000.0;
  EXPECT_LT(chi_square, 148.2);  // 99 degrees of freedom: exceeded once in a thousand seeds
}

}  // namespace
}  // namespace trireme::rollout
