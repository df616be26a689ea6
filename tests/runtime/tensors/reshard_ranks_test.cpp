#include "runtime/comm/local_communicator.h"
#include "tests/runtime/tensors/reshard_cases.h"

namespace trireme::tensors {
namespace {

using comm::Communicator;
using comm::LocalWorld;

TEST(ReshardRanks, EachRankWithItsOwnPartGetsItsElements) {
  for (const int num_ranks : {1, 2, 3, 5, 8})
    LocalWorld::run(num_ranks, [](Communicator& world) { expect_random_reshards(world, 0, 80); });
}

Layout on(std::vector<int> ranks, int tp, comm::DType dtype) {
  Layout layout;
  layout.role = "role";
  layout.mesh = Mesh::of(std::move(ranks), {.tp = tp});
  layout.splits = {{0}};
  layout.dtype = dtype;
  return layout;
}

// Many rounds of a buffer that is much smaller than the tensor, with a relay that passes on what it gets.
TEST(ReshardRanks, ManyRoundsThroughASmallStaging) {
  const std::vector<TensorSpec> tensors{{"a", {640, 16}, 0}};
  const Layout from = on({0, 1}, 2, comm::DType::f32), to = on({2, 3, 4, 5}, 1, comm::DType::bf16);
  Reshard reshard{tensors, from, to, {0, 0, 1, 1, 2, 2}};
  reshard.options.parcel_bytes = 64;
  reshard.options.staging_bytes = 4 * 256;
  reshard.options.relays = 2;
  ASSERT_GT(plan_for(reshard, 2).num_rounds, 20);
  LocalWorld::run(6, [&](Communicator& world) { expect_resharded(world, tensors, reshard); });
}

// The reshard that it was made from may be gone, and so may the ranks that have no part in it.
TEST(ReshardRanks, KeepsNothingOfWhatItWasMadeFrom) {
  LocalWorld::run(3, [](Communicator& world) {
    std::unique_ptr<Resharder> resharder;
    {
      const std::vector<TensorSpec> tensors{{"a", {4, 2}, 0}};
      const Layout from = on({2}, 1, comm::DType::i32), to = on({1}, 1, comm::DType::i32);
      resharder = std::make_unique<Resharder>(world, Reshard{tensors, from, to, {0, 0, 0}});
    }
    if (world.rank() == 0) return resharder->run({}, {});
    std::vector<std::vector<int64_t>> numbers{{0, 1, 2, 3, 4, 5, 6, 7}},
        none{{-1, -1, -1, -1, -1, -1, -1, -1}};
    const NumberBlocks memory(comm::DType::i32, world.rank() == 2 ? numbers : none);
    world.rank() == 2 ? resharder->run(memory.view(), {}) : resharder->run({}, memory.view());
    for (size_t i = 0; i < 8; ++i) EXPECT_EQ(memory.at(0, i), static_cast<float>(i));
  });
}

TEST(ReshardRanks, RefusesMemoryOfAnotherTypeOrShape) {
  LocalWorld::run(1, [](Communicator& world) {
    const std::vector<TensorSpec> tensors{{"a", {4, 2}, 0}};
    const Layout from = on({0}, 1, comm::DType::f32), to = on({0}, 1, comm::DType::bf16);
    Resharder resharder(world, {tensors, from, to, {0}});
    const std::vector<std::vector<int64_t>> numbers{{0, 1, 2, 3, 4, 5, 6, 7}};
    const NumberBlocks f32(comm::DType::f32, numbers), bf16(comm::DType::bf16, numbers);
    EXPECT_THROW(resharder.run(bf16.view(), bf16.view()), Error);
    EXPECT_THROW(resharder.run(f32.view(), f32.view()), Error);
    EXPECT_THROW(resharder.run({}, bf16.view()), Error);
    EXPECT_NO_THROW(resharder.run(f32.view(), bf16.view()));
  });
}

TEST(ReshardRanks, RefusesLayoutsWithMistakesAndWorldsOfAnotherSize) {
  LocalWorld::run(2, [](Communicator& world) {
    const std::vector<TensorSpec> tensors{{"a", {4, 2}, 0}};
    const Layout good = on({0, 1}, 2, comm::DType::f32), absent = on({0, 7}, 2, comm::DType::f32);
    EXPECT_THROW(Resharder(world, {tensors, good, absent, {0, 0}}), Error);
    EXPECT_THROW(Resharder(world, {tensors, good, good, {0, 0, 0}}), Error);
  });
}

}  // namespace
}  // namespace trireme::tensors
