// Misuse, calls that differ between ranks, and abort().
#pragma once

#include <thread>

#include "tests/runtime/comm/conformance.h"

namespace trireme::comm::conformance {

TEST_P(CommunicatorTest, MisuseIsSeenBeforeAnythingMoves) {
  run([this](Communicator& comm) {
    std::vector<float> in(6), out(5);
    const auto expect_internal = [](const std::function<void()>& call) {
      EXPECT_EQ(code_of(call), ErrorCode::internal);
    };
    const Device elsewhere = comm.device() == Device::cpu ? Device::gpu : Device::cpu;
    expect_internal([&] { comm.broadcast(view(comm, in), comm.size()); });
    expect_internal([&] { comm.broadcast(view(comm, in), -1); });
    expect_internal([&] { comm.all_reduce({in.data(), 6, DType::u8, comm.device()}); });
    expect_internal([&] { comm.all_reduce({in.data(), 6, DType::f32, elsewhere}); });
    expect_internal([&] { comm.all_reduce({nullptr, 6, DType::f32, comm.device()}); });
    expect_internal([&] { comm.all_gather(view(comm, std::as_const(in)), view(comm, out)); });
    expect_internal([&] {
      comm.all_gather_v(view(comm, std::as_const(in)), view(comm, out),
                        std::vector<int64_t>(comm.size() + 1));
    });
    expect_internal([&] {
      comm.all_gather_v(view(comm, std::as_const(in)), view(comm, out),
                        std::vector<int64_t>(comm.size(), -1));
    });
    expect_internal([&] { comm.reduce_scatter(view(comm, std::as_const(out)), view(comm, in)); });
    expect_internal([&] {
      const std::vector<int64_t> ones(comm.size(), 1);
      comm.all_to_all_v(view(comm, std::as_const(in)), ones, view(comm, out),
                        std::vector<int64_t>(comm.size(), 2));
    });
    expect_all_reduce<float>(comm, 100, ReduceOp::sum);  // and nobody is out of step
  });
}

TEST_P(CommunicatorTest, DifferentOperationsEndInAnErrorOnAllRanks) {
  run([this](Communicator& comm) {
    if (comm.size() == 1) return;
    std::vector<float> data(10);
    std::string text;
    const ErrorCode code = code_of(
        [&] {
          if (comm.rank() == 0)
            comm.barrier();
          else
            comm.all_reduce(view(comm, data));
          settle(comm);
          comm.barrier();  // what a GPU only enqueued shows in the next call
        },
        &text);
    expect_mismatch(code, text);
    EXPECT_NE(comm.abort_reason(), "");
  });
}

TEST_P(CommunicatorTest, DifferentCountsEndInAnErrorOnAllRanks) {
  for (const int64_t count : {10, 100000}) {  // small and small, small and large
    run([&](Communicator& comm) {
      if (comm.size() == 1) return;
      std::vector<float> data(comm.rank() == 0 ? count : 12);
      std::string text;
      const ErrorCode code = code_of(
          [&] {
            comm.all_reduce(view(comm, data));
            settle(comm);
            comm.barrier();
          },
          &text);
      expect_mismatch(code, text);
    });
  }
}

TEST_P(CommunicatorTest, AbortOnOneRankWakesAllThatWait) {
  run([this](Communicator& comm) {
    if (comm.size() == 1) return;
    std::vector<float> data(100000);
    std::string text;
    if (comm.rank() == comm.size() - 1) {
      comm.barrier();
      comm.abort("the watchdog says so");
    } else {
      const ErrorCode code = code_of(
          [&] {
            comm.barrier();  // the abort may come before it has returned here
            comm.all_reduce(view(comm, data));
            settle(comm);
            comm.barrier();
          },
          &text);
      EXPECT_EQ(code, ErrorCode::peer_failed) << text;
      EXPECT_NE(text.find("the watchdog says so"), std::string::npos) << text;
    }
    EXPECT_EQ(code_of([&] {
                comm.barrier();
                settle(comm);
              }),
              ErrorCode::peer_failed);
  });
}

TEST_P(CommunicatorTest, AbortFromAnotherThreadEndsACollectiveUnderWay) {
  run([this](Communicator& comm) {
    if (comm.size() == 1) return;
    if (comm.rank() != 0) {
      EXPECT_EQ(code_of([&] {
                  while (true) {
                    comm.barrier();
                    settle(comm);
                  }
                }),
                ErrorCode::peer_failed);
      return;
    }
    std::vector<float> data(10);
    comm.barrier();
    std::thread watchdog([&] { comm.abort("enough"); });
    EXPECT_EQ(code_of([&] {
                while (true) {
                  comm.barrier();
                  settle(comm);
                }
              }),
              ErrorCode::peer_failed);
    watchdog.join();
  });
}

}  // namespace trireme::comm::conformance
