#include "runtime/tensors/staging.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace trireme::tensors {
namespace {

using comm::DType;

uint16_t to_half(float value) {
  uint16_t half;
  convert(reinterpret_cast<const std::byte*>(&value), DType::f32, reinterpret_cast<std::byte*>(&half),
          DType::bf16, 1);
  return half;
}
float to_float(uint16_t half) {
  float value;
  convert(reinterpret_cast<const std::byte*>(&half), DType::bf16, reinterpret_cast<std::byte*>(&value),
          DType::f32, 1);
  return value;
}

TEST(Staging, Bf16IsTheNearestAndEvenBetweenTwo) {
  EXPECT_EQ(to_half(1.0f), 0x3f80);
  EXPECT_EQ(to_half(1.0f + 0x1p-8f), 0x3f80);             // half way: down to even
  EXPECT_EQ(to_half(1.0f + 3 * 0x1p-8f), 0x3f82);         // half way: up to even
  EXPECT_EQ(to_half(1.0f + 0x1p-8f + 0x1p-20f), 0x3f81);  // above half way
  EXPECT_EQ(to_half(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(to_half(-std::numeric_limits<float>::infinity()), 0xff80);
  uint32_t bits = 0x7f800001;  // a NaN whose upper half alone would be infinity
  float nan;
  std::memcpy(&nan, &bits, 4);
  EXPECT_TRUE(std::isnan(to_float(to_half(nan))));
}

TEST(Staging, EveryBf16SurvivesTheWayThroughF32) {
  for (uint32_t half = 0; half < 65536; ++half) {
    const float value = to_float(static_cast<uint16_t>(half));
    if (!std::isnan(value)) {
      ASSERT_EQ(to_half(value), half);
    }
  }
}

TEST(Staging, AnyNumberOfElementsAtAnyAddress) {
  std::mt19937 random(4);
  for (int64_t count = 0; count < 200; ++count) {
    std::vector<std::byte> wide(4 * count + 1), narrow(2 * count + 2), again(4 * count + 3, std::byte{9});
    for (auto& byte : wide) byte = static_cast<std::byte>(random());
    convert(wide.data() + 1, DType::f32, narrow.data() + 1, DType::bf16, count);
    convert(narrow.data() + 1, DType::bf16, again.data() + 1, DType::f32, count);
    for (int64_t i = 0; i < count; ++i) {
      float value, back;
      std::memcpy(&value, wide.data() + 1 + 4 * i, 4);
      std::memcpy(&back, again.data() + 1 + 4 * i, 4);
      uint16_t half;
      std::memcpy(&half, narrow.data() + 1 + 2 * i, 2);
      ASSERT_EQ(half, to_half(value)) << i << " of " << count;
      const float expected = to_float(half);
      ASSERT_EQ(std::memcmp(&back, &expected, 4), 0) << i << " of " << count;
    }
    ASSERT_EQ(narrow.back(), std::byte{0}) << "nothing is written behind";
    ASSERT_EQ(again.back(), std::byte{9});
  }
}

TEST(Staging, RoundingIsNoFurtherThanEitherNeighbour) {
  std::mt19937 random(1);
  for (int i = 0; i < 200000; ++i) {
    const uint32_t bits = random();
    float value;
    std::memcpy(&value, &bits, 4);
    if (!std::isfinite(value)) continue;
    const uint16_t half = to_half(value);
    const float got = to_float(half);
    if (!std::isfinite(got)) continue;
    for (const uint16_t other : {static_cast<uint16_t>(half + 1), static_cast<uint16_t>(half - 1)}) {
      const float neighbour = to_float(other);
      if (!std::isfinite(neighbour)) continue;
      ASSERT_LE(std::abs(static_cast<double>(got) - value), std::abs(static_cast<double>(neighbour) - value));
    }
  }
}

TEST(Staging, OtherTypesAreNotConverted) {
  std::byte a[8]{}, b[8]{};
  EXPECT_THROW(convert(a, DType::i32, b, DType::f32, 1), Error);
  EXPECT_THROW(convert(a, DType::f32, b, DType::i32, 1), Error);
  EXPECT_THROW(convert(a, DType::bf16, b, DType::i64, 1), Error);
}

// Columns of one matrix to rows of another: the runs of the two sides have different lengths.
TEST(Staging, CopiesBetweenDifferentStrides) {
  std::vector<int32_t> from(24), to(12, -1);
  for (int i = 0; i < 24; ++i) from[i] = i;
  Strided columns{1, 2, {6, 2}, {4, 1}}, rows{0, 1, {12}, {1}};
  std::byte* from_block = reinterpret_cast<std::byte*>(from.data());
  std::byte* to_block = reinterpret_cast<std::byte*>(to.data());
  const LocalCopy kept{0, columns, rows};
  copy({&kept, 1}, {{&from_block, 1}, DType::i32}, {{&to_block, 1}, DType::i32});
  EXPECT_EQ(to, (std::vector<int32_t>{1, 2, 5, 6, 9, 10, 13, 14, 17, 18, 21, 22}));
  const LocalCopy back{0, rows, columns};
  std::fill(from.begin(), from.end(), -1);
  copy({&back, 1}, {{&to_block, 1}, DType::i32}, {{&from_block, 1}, DType::i32});
  for (int i = 0; i < 24; ++i) EXPECT_EQ(from[i], i % 4 == 1 || i % 4 == 2 ? i : -1);
}

}  // namespace
}  // namespace trireme::tensors
