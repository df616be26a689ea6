#include "runtime/comm/mpi_communicator.h"
#include "tests/runtime/tensors/reshard_cases.h"

namespace trireme::tensors {
namespace {

TEST(ReshardOverMpi, EachRankWithItsOwnPartGetsItsElements) {
  comm::MpiThread thread;
  comm::MpiCommunicator world(thread, "world", comm::all_ranks(thread));
  expect_resharded(world, 100, 160);
}

}  // namespace
}  // namespace trireme::tensors
