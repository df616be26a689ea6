#include "runtime/tensors/box.h"

#include <gtest/gtest.h>

#include <random>

#include "runtime/base/error.h"

namespace trireme::tensors {
namespace {

Box box(std::initializer_list<std::pair<int64_t, int64_t>> ranges) {
  Box result;
  result.num_dims = 0;
  for (const auto& [begin, end] : ranges) {
    result.begin[result.num_dims] = begin;
    result.end[result.num_dims++] = end;
  }
  return result;
}

// Numbers of the elements of `inner`, counted row-major within `outer`.
std::vector<int64_t> elements(const Box& inner, const Box& outer) {
  std::vector<int64_t> all;
  for (int64_t e = 0; e < outer.numel(); ++e) {
    int64_t rest = e;
    bool within = true;
    for (int d = outer.num_dims - 1; d >= 0; --d) {
      const int64_t index = outer.begin[d] + rest % outer.extent(d);
      rest /= outer.extent(d);
      within &= index >= inner.begin[d] && index < inner.end[d];
    }
    if (within) all.push_back(e);
  }
  return all;
}

std::vector<int64_t> elements(const Strided& where) {
  std::vector<int64_t> all;
  for (Runs runs(where); !runs.done(); runs.next())
    for (int64_t i = 0; i < runs.length(); ++i) all.push_back(runs.offset() + i);
  return all;
}

class RandomBoxes {
 public:
  explicit RandomBoxes(uint64_t seed) : random_(seed) {}
  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  Box outer() {
    Box result;
    result.num_dims = 1 + static_cast<int>(below(kMaxDims));
    for (int d = 0; d < result.num_dims; ++d) {
      result.begin[d] = below(4);
      result.end[d] = result.begin[d] + 1 + below(4);
    }
    return result;
  }
  Box within(const Box& outer) {
    Box result = outer;
    for (int d = 0; d < outer.num_dims; ++d) {
      result.begin[d] += below(outer.extent(d));
      result.end[d] = result.begin[d] + 1 + below(outer.end[d] - result.begin[d]);
    }
    return result;
  }

 private:
  std::mt19937_64 random_;
};

TEST(Box, AnIntervalIsFewBoxesInOrder) {
  RandomBoxes random(1);
  for (int round = 0; round < 3000; ++round) {
    const Box outer = random.outer();
    const int64_t begin = random.below(outer.numel()), end = begin + random.below(outer.numel() - begin + 1);
    std::vector<Box> boxes;
    append_interval(outer, begin, end, boxes);
    EXPECT_LE(boxes.size(), static_cast<size_t>(2 * outer.num_dims - 1));
    std::vector<int64_t> got, expected;
    for (const Box& part : boxes)
      for (const int64_t e : elements(part, outer)) got.push_back(e);
    for (int64_t e = begin; e < end; ++e) expected.push_back(e);
    ASSERT_EQ(got, expected);
  }
}

TEST(Box, WholeRowsAreOneBox) {
  std::vector<Box> boxes;
  append_interval(box({{0, 5}, {0, 4}}), 4, 12, boxes);
  EXPECT_EQ(boxes, std::vector{box({{1, 3}, {0, 4}})});
}

TEST(Box, StridedWalksTheElementsInOrder) {
  RandomBoxes random(2);
  for (int round = 0; round < 3000; ++round) {
    const Box outer = random.outer(), inner = random.within(outer);
    const Strided where = strided(inner, outer);
    const auto expected = elements(inner, outer);
    ASSERT_EQ(elements(where), expected);
    EXPECT_EQ(where.numel(), inner.numel());
    EXPECT_EQ(where.contiguous(),
              expected.back() - expected.front() + 1 == static_cast<int64_t>(expected.size()));
  }
}

TEST(Box, WithoutGapsIsOneRun) {
  EXPECT_TRUE(strided(box({{2, 5}, {0, 4}, {0, 3}}), box({{0, 9}, {0, 4}, {0, 3}})).contiguous());
  EXPECT_EQ(strided(box({{2, 5}, {0, 4}, {0, 3}}), box({{0, 9}, {0, 4}, {0, 3}})).offset, 24);
  const Strided columns = strided(box({{0, 9}, {1, 3}}), box({{0, 9}, {0, 4}}));
  EXPECT_EQ(columns.num_dims, 2);
  EXPECT_EQ(columns.shape[0], 9);
  EXPECT_EQ(columns.strides[0], 4);
  EXPECT_EQ(columns.shape[1], 2);
}

TEST(Box, IntersectionsAreCommonElements) {
  RandomBoxes random(3);
  for (int round = 0; round < 2000; ++round) {
    const Box outer = random.outer(), a = random.within(outer), b = random.within(outer);
    std::vector<int64_t> expected;
    const auto of_a = elements(a, outer), of_b = elements(b, outer);
    std::set_intersection(of_a.begin(), of_a.end(), of_b.begin(), of_b.end(), std::back_inserter(expected));
    const Box both = intersection(a, b);
    EXPECT_EQ(both.numel(), static_cast<int64_t>(expected.size()));
    if (both.numel() > 0) {
      EXPECT_EQ(elements(both, outer), expected);
    }
  }
}

TEST(Box, AScalarIsOneElement) {
  const Box scalar = whole({});
  EXPECT_EQ(scalar.numel(), 1);
  EXPECT_TRUE(strided(scalar, scalar).contiguous());
  EXPECT_THROW(whole(std::vector<int64_t>(kMaxDims + 1, 2)), Error);
}

}  // namespace
}  // namespace trireme::tensors
