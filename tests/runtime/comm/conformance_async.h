// Several operations under way.
#pragma once

#include "tests/runtime/comm/conformance.h"

namespace trireme::comm::conformance {

TEST_P(CommunicatorTest, AsyncOperationsOverlapAndEndInAnyOrder) {
  run([this](Communicator& comm) {
    constexpr int kMany = 8;
    std::vector<std::vector<float>> sums, copies;
    std::vector<WorkHandle> work;
    for (int k = 0; k < kMany; ++k) {
      sums.push_back(elements<float>(comm.rank(), 1000 + 5000 * k, k));
      copies.push_back(elements<float>(comm.rank(), 10 + 7000 * k, k));
    }
    for (int k = 0; k < kMany; ++k) {
      work.push_back(comm.all_reduce_async(view(comm, sums[k])));
      work.push_back(comm.broadcast_async(view(comm, copies[k]), k % comm.size()));
    }
    expect_all_reduce<double>(comm, 333, ReduceOp::sum);  // a blocking one among them
    while (!work.empty()) {
      work.back()->wait();
      EXPECT_TRUE(work.back()->done());
      work.pop_back();
    }
    settle(comm);
    for (int k = 0; k < kMany; ++k) {
      EXPECT_TRUE(same_bits(sums[k], reduced<float>(comm.size(), 1000 + 5000 * k, ReduceOp::sum, k)));
      EXPECT_TRUE(same_bits(copies[k], elements<float>(k % comm.size(), 10 + 7000 * k, k)));
    }
  });
}

TEST_P(CommunicatorTest, DestroyedWorkHasFinished) {
  run([this](Communicator& comm) {
    auto data = elements<float>(comm.rank(), 40000);
    comm.all_reduce_async(view(comm, data)).reset();
    settle(comm);
    EXPECT_TRUE(same_bits(data, reduced<float>(comm.size(), 40000, ReduceOp::sum)));
  });
}

}  // namespace trireme::comm::conformance
