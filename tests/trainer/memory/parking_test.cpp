// Tensors that go and come back with their bytes, under views that stay.
#include "trainer/memory/parking.h"

#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>

#include "runtime/base/error.h"
#include "trainer/memory/block_memory.h"

namespace trireme::memory {
namespace {

class ParkingTest : public testing::Test {
 protected:
  // Whether the memory is gone once all is done that was asked for.
  bool is_gone(const at::Tensor& tensor) {
    outside_.after([] {}).get();
    return !has_memory(tensor);
  }
  Outside outside_{at::kCPU, testing::TempDir()};
  at::Tensor a_ = at::arange(1000, at::kFloat), b_ = at::arange(77, at::kLong);
};

TEST_F(ParkingTest, BringsBackTheBytesUnderViewsThatStay) {
  const at::Tensor view = a_.narrow(0, 500, 10).view({2, 5}), before = view.clone();
  Parking parking(outside_, {a_, b_});
  EXPECT_EQ(parking.bytes(), 4 * 1000 + 8 * 77);
  for (int round = 0; round < 3; ++round) {
    parking.park(true);
    EXPECT_TRUE(is_gone(a_));
    EXPECT_TRUE(is_gone(b_));
    if (round == 1) parking.expect();
    parking.fetch();
    EXPECT_TRUE(view.equal(before + round));
    EXPECT_TRUE(b_.equal(at::arange(77, at::kLong)));
    view.add_(1);  // seen by the next round
  }
}

TEST_F(ParkingTest, WhatDidNotChangeIsWrittenOnce) {
  Parking parking(outside_, {a_});
  parking.park(true);
  parking.fetch();
  a_[0] = 5.0;
  parking.park(false);
  EXPECT_TRUE(is_gone(a_));
  parking.fetch();
  EXPECT_EQ(a_[0].item<float>(), 0.0f) << "what was said not to change is what was written first";
}

TEST_F(ParkingTest, MayBeAskedInAnyOrder) {
  Parking parking(outside_, {a_});
  parking.fetch();
  parking.expect();
  parking.park(true);
  parking.park(true);
  parking.expect();
  parking.expect();
  parking.park(false);  // before it was used
  parking.fetch();
  EXPECT_TRUE(a_.equal(at::arange(1000, at::kFloat)));
}

TEST_F(ParkingTest, RefusesPartsOfAStorage) {
  EXPECT_THROW(Parking(outside_, {a_.narrow(0, 0, 10)}), Error);
}

TEST_F(ParkingTest, GivesItsRoomBack) {
  for (int round = 0; round < 5; ++round) {
    at::Tensor values = at::arange(1000, at::kFloat);
    Parking parking(outside_, {values});
    parking.park(true);
  }
  EXPECT_EQ(outside_.most_bytes(), 4000);
}

}  // namespace
}  // namespace trireme::memory
