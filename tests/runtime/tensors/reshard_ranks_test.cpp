#include "runtime/comm/local_communicator.h"
#include "tests/runtime/tensors/reshard_cases.h"

namespace trireme::tensors {
namespace {

TEST(ReshardRanks, EachRankWithItsOwnPartGetsItsElements) {
  for (const int num_ranks : {1, 2, 3, 5, 8})
    comm::LocalWorld::run(num_ranks, [](comm::Communicator& world) { expect_resharded(world, 0, 40); });
}

}  // namespace
}  // namespace trireme::tensors
