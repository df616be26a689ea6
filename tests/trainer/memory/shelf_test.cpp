// Tensors put aside and asked for in another order.
#include "trainer/memory/shelf.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>

namespace trireme::memory {
namespace {

at::Tensor numbers(int i) {
  return at::full({100 + i, 3}, i, at::kFloat);
}

TEST(Shelf, GivesBackTheSameBytesInAnyOrder) {
  Outside outside(at::kCPU, testing::TempDir());
  Shelf shelf(outside);
  // As micro-batches of a pipeline do: the second one begins before the first one's way back.
  std::vector<std::shared_ptr<Shelf::Item>> items;
  for (int i = 0; i < 12; ++i) items.push_back(shelf.put(numbers(i)));
  for (const int i : {5, 4, 3, 2, 1, 0, 11, 6, 10, 7, 9, 8}) {
    EXPECT_TRUE(shelf.get(*items[static_cast<size_t>(i)]).equal(numbers(i))) << i;
    items[static_cast<size_t>(i)].reset();
  }
}

TEST(Shelf, UsesTheRoomOfWhatIsGoneAgain) {
  Outside outside(at::kCPU, testing::TempDir());
  Shelf shelf(outside);
  for (int round = 0; round < 4; ++round) {
    std::vector<std::shared_ptr<Shelf::Item>> items;
    for (int i = 0; i < 5; ++i) items.push_back(shelf.put(numbers(7)));
    // Some are asked for, the others are never wanted again: a graph without a backward pass.
    for (int i = 4; i >= 2; --i) EXPECT_TRUE(shelf.get(*items[static_cast<size_t>(i)]).equal(numbers(7)));
  }
  EXPECT_EQ(outside.most_bytes(), 5 * 107 * 3 * 4);
}

}  // namespace
}  // namespace trireme::memory
