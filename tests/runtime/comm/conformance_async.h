// Several operations under way.
#pragma once

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>

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

// All kinds at once, in an order of ending that is not that of starting.
TEST_P(CommunicatorTest, EveryOperationIsUnderWayBesideTheOthers) {
  run([this](Communicator& comm) {
    const int n = comm.size(), me = comm.rank();
    constexpr int64_t kCount = 20011;
    const auto counts = uneven_counts(comm, kCount);
    const auto uneven = std::accumulate(counts.begin(), counts.end(), int64_t{0});
    const auto before = std::accumulate(counts.begin(), counts.begin() + me, int64_t{0});
    const auto in = elements<float>(me, kCount), wide = elements<float>(me, kCount * n),
               parts = elements<float>(me, uneven);
    std::vector<float> sum = in, root = in, all(kCount * n), part(kCount), uneven_part(counts[me]),
                       uneven_all(uneven), turned(kCount * n), from_left(kCount);
    const std::vector<int64_t> even(n, kCount);
    const Send send[] = {{(me + 1) % n, view(comm, in)}};
    const Receive receive[] = {{(me + n - 1) % n, view(comm, from_left)}};
    std::vector<WorkHandle> work;
    work.push_back(comm.send_recv_async(send, receive));
    work.push_back(comm.all_reduce_async(view(comm, sum)));
    work.push_back(comm.broadcast_async(view(comm, root), n - 1));
    work.push_back(comm.all_gather_async(view(comm, in), view(comm, all)));
    work.push_back(
        comm.all_gather_v_async(view(comm, parts).slice(before, counts[me]), view(comm, uneven_all), counts));
    work.push_back(comm.reduce_scatter_async(view(comm, wide), view(comm, part)));
    work.push_back(comm.reduce_scatter_v_async(view(comm, parts), view(comm, uneven_part), counts));
    work.push_back(comm.all_to_all_v_async(view(comm, wide), even, view(comm, turned), even));
    for (; !work.empty(); work.pop_back()) work.back()->wait();
    settle(comm);
    EXPECT_TRUE(same_bits(from_left, elements<float>((me + n - 1) % n, kCount)));
    EXPECT_TRUE(same_bits(sum, reduced<float>(n, kCount, ReduceOp::sum)));
    EXPECT_TRUE(same_bits(root, elements<float>(n - 1, kCount)));
    EXPECT_TRUE(same_bits(part, reduced<float>(n, kCount, ReduceOp::sum, me * kCount)));
    EXPECT_TRUE(same_bits(uneven_part, reduced<float>(n, counts[me], ReduceOp::sum, before)));
    int64_t begin = 0;
    for (int r = 0; r < n; begin += counts[r++]) {
      const auto theirs = elements<float>(r, kCount);
      EXPECT_TRUE(std::equal(theirs.begin(), theirs.end(), all.begin() + r * kCount));
      const auto row = elements<float>(r, kCount, me * kCount);
      EXPECT_TRUE(std::equal(row.begin(), row.end(), turned.begin() + r * kCount));
      const auto piece = elements<float>(r, counts[r], begin);
      EXPECT_TRUE(std::equal(piece.begin(), piece.end(), uneven_all.begin() + begin));
    }
  });
}

// Nobody waits: the caller only looks, as it would between two layers. Where progress needed the caller, this
// would look for ever.
TEST_P(CommunicatorTest, OperationsEndWhileTheCallerDoesOtherThings) {
  run([this](Communicator& comm) {
    const int n = comm.size(), me = comm.rank();
    auto data = elements<float>(me, kLargeCount);
    std::vector<float> gathered(kLargeCount / n * n), arrived(kLargeCount);
    const auto mine = elements<float>(me, kLargeCount);
    const Send send[] = {{(me + 1) % n, view(comm, mine)}};
    const Receive receive[] = {{(me + n - 1) % n, view(comm, arrived)}};
    std::vector<WorkHandle> work;
    work.push_back(comm.all_reduce_async(view(comm, data)));
    work.push_back(comm.all_gather_async(view(comm, mine).slice(0, kLargeCount / n), view(comm, gathered)));
    work.push_back(comm.send_recv_async(send, receive));
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(100);
    for (const WorkHandle& one : work)
      while (!one->done()) {
        if (std::chrono::steady_clock::now() > give_up) return ADD_FAILURE() << "no progress without wait()";
        std::this_thread::yield();
      }
    for (const WorkHandle& one : work) one->wait();
    settle(comm);
    EXPECT_TRUE(same_bits(data, reduced<float>(n, kLargeCount, ReduceOp::sum)));
    EXPECT_TRUE(same_bits(arrived, elements<float>((me + n - 1) % n, kLargeCount)));
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
