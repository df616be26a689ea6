// The same cases on however many MPI ranks the test is started with.
#pragma once

#include "runtime/comm/mpi_communicator.h"
#include "tests/runtime/tensors/reshard_cases.h"

namespace trireme::tensors {
namespace {

TEST(ReshardOverMpi, EachRankWithItsOwnPartGetsItsElements) {
  comm::MpiThread thread;
  comm::MpiCommunicator world(thread, "world", comm::all_ranks(thread));
  expect_random_reshards(world, 100, 180);
}

}  // namespace
}  // namespace trireme::tensors
