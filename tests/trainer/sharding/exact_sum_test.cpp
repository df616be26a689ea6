#include "trainer/sharding/exact_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

namespace trireme::sharding {
namespace {

at::Tensor tensor_of(std::vector<float>& values) {
  return at::from_blob(values.data(), {static_cast<int64_t>(values.size())}, at::kFloat);
}

// Gradient-like numbers of very different sizes, of both signs, with zeros among them.
std::vector<std::vector<float>> addends(int count, int size, double largest) {
  std::mt19937_64 random(7);
  std::vector<std::vector<float>> result(count);
  for (auto& addend : result)
    for (int i = 0; i < size; ++i) {
      const double exponent = std::uniform_real_distribution<>(-40, std::log2(largest))(random);
      const double value = std::exp2(exponent) * std::uniform_real_distribution<>(-1, 1)(random);
      addend.push_back(i % 17 == 3 ? 0.0f : static_cast<float>(value));
    }
  return result;
}

std::vector<float> read(const ExactSum& sum) {
  std::vector<float> values(static_cast<size_t>(sum.numel()));
  sum.read(tensor_of(values));
  return values;
}

TEST(ExactSum, HasTheSameBitsInAnyOrderAndGrouping) {
  for (const double largest : {1e-4, 3e3}) {
    auto parts = addends(40, 1000, largest);
    ExactSum forward(1000), backward(1000), left(1000), right(1000);
    for (auto& part : parts) forward.add(tensor_of(part));
    for (size_t i = parts.size(); i-- > 0;) backward.add(tensor_of(parts[i]));
    for (size_t i = 0; i < parts.size(); ++i) (i % 3 == 0 ? left : right).add(tensor_of(parts[i]));
    EXPECT_EQ(read(forward), read(backward));
    left.low().add_(right.low());
    if (right.high().defined()) {
      left.need_high();
      left.high().add_(right.high());
    }
    EXPECT_EQ(read(forward), read(left));
    EXPECT_EQ(forward.high().defined(), largest > 1);
  }
}

TEST(ExactSum, IsTheSumToTheLastPlaceOfFp32) {
  auto parts = addends(60, 500, 2.0);
  ExactSum sum(500);
  std::vector<long double> expected(500), sizes(500);
  for (auto& part : parts) {
    sum.add(tensor_of(part));
    for (size_t i = 0; i < 500; ++i) {
      expected[i] += part[i];
      sizes[i] += std::fabs(part[i]);
    }
  }
  const auto values = read(sum);
  for (size_t i = 0; i < 500; ++i)
    EXPECT_NEAR(values[i], static_cast<double>(expected[i]),
                std::max<double>(static_cast<double>(std::fabs(expected[i])) * 0x1p-23, 60 * 0x1p-61));
}

// Large elements take another way than small ones, and so do small ones beside them.
TEST(ExactSum, AnElementsSumIsItsOwnWhateverStandsBesideIt) {
  constexpr int kSize = 7000;
  auto parts = addends(5, kSize, 0x1p-11);
  for (size_t i = 0; i < parts.size(); ++i) {
    parts[i][1234] = 0x1p-11f;
    parts[i][1235] = std::nextafter(0x1p-11f, 0.0f) * (i % 2 == 0 ? 1 : -1);
    parts[i][5000 + i] = 77.7f;
  }
  ExactSum all(kSize);
  for (auto& part : parts) all.add(tensor_of(part));
  const auto values = read(all);
  for (int i = 0; i < kSize; ++i) {
    ExactSum alone(1);
    for (auto& part : parts) alone.add(at::from_blob(&part[i], {1}, at::kFloat));
    ASSERT_EQ(values[i], read(alone)[0]) << i;
    ASSERT_EQ(all.low().const_data_ptr<int64_t>()[i], alone.low().const_data_ptr<int64_t>()[0]) << i;
  }
}

TEST(ExactSum, TakesFewerElementsThanItHasAndStartsAgainAtZero) {
  ExactSum sum(5);
  std::vector<float> three{1.5f, -2.0f, 1e-9f};
  sum.add(tensor_of(three));
  sum.add(tensor_of(three));
  EXPECT_EQ(read(sum), (std::vector<float>{3.0f, -4.0f, 2e-9f, 0.0f, 0.0f}));
  sum.zero();
  EXPECT_EQ(read(sum), std::vector<float>(5, 0.0f));
}

TEST(ExactSum, IsSpoiltByWhatIsNoNumberOrTooLarge) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity(), 1e30f}) {
    ExactSum sum(3);
    std::vector<float> values{0.0f, bad, 1.0f};
    EXPECT_TRUE(sum.is_sound());
    sum.add(tensor_of(values));
    EXPECT_FALSE(sum.is_sound()) << bad;
    sum.zero();
    EXPECT_TRUE(sum.is_sound());
  }
}

TEST(ExactSquares, DoNotDependOnHowTheNumbersAreCut) {
  auto parts = addends(1, 10000, 4e6);
  const float* values = parts[0].data();
  ExactSquares whole;
  whole.add(values, 10000);
  std::mt19937 random(3);
  for (int round = 0; round < 20; ++round) {
    ExactSquares sum;
    for (int64_t at = 0; at < 10000;) {
      const int64_t count = std::min<int64_t>(1 + random() % 3000, 10000 - at);
      ExactSquares piece;
      piece.add(values + at, count);
      for (int w = 0; w < ExactSquares::kWords; ++w) sum.words[w] += piece.words[w];
      at += count;
    }
    EXPECT_EQ(sum.value(), whole.value());
  }
  long double expected = 0;
  for (int i = 0; i < 10000; ++i) expected += static_cast<long double>(values[i]) * values[i];
  EXPECT_NEAR(whole.value() / static_cast<double>(expected), 1.0, 1e-14);
}

TEST(ExactSquares, AreInfiniteWhereANumberIs) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(), 1e9f}) {
    ExactSquares squares;
    const float values[] = {1.0f, bad};
    squares.add(values, 2);
    EXPECT_TRUE(std::isinf(squares.value()));
  }
}

}  // namespace
}  // namespace trireme::sharding
