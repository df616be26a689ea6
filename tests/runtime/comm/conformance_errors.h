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
    expect_internal([&] {
      comm.reduce_scatter_v(view(comm, std::as_const(in)), view(comm, out),
                            std::vector<int64_t>(comm.size(), 7));
    });
    expect_internal([&] {
      comm.reduce_scatter_v(view(comm, std::as_const(in)), view(comm, out),
                            std::vector<int64_t>(comm.size() + 1));
    });
    const auto expect_bad_messages = [&](std::vector<Send> sends, std::vector<Receive> receives) {
      expect_internal([&] { comm.send_recv(sends, receives); });
    };
    const int me = comm.rank();
    expect_bad_messages({{comm.size(), view(comm, in)}}, {});
    expect_bad_messages({}, {{-1, view(comm, in)}});
    expect_bad_messages({{0, {in.data(), 6, DType::f32, elsewhere}}}, {});
    expect_bad_messages({}, {{0, {nullptr, 6, DType::f32, comm.device()}}});
    expect_bad_messages({{me, view(comm, in)}}, {});
    expect_bad_messages({}, {{me, view(comm, in)}});
    expect_bad_messages({{me, view(comm, in)}}, {{me, view(comm, out)}});
    expect_all_reduce<float>(comm, 100, ReduceOp::sum);  // and nobody is out of step
  });
}

TEST_P(CommunicatorTest, DifferentOperationsEndInAnErrorOnAllRanks) {
  run([this](Communicator& comm) {
    if (comm.size() == 1) return;
    auto& data = never_freed<float>(10);
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
      auto& data = never_freed<float>(comm.rank() == 0 ? count : 12);
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
    auto& data = never_freed<float>(100000);
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

// All but the last rank have begun; the last one never will.
TEST_P(CommunicatorTest, AbortEndsEveryKindOfOperation) {
  using Begin = std::function<WorkHandle(Communicator&, std::vector<float>&, std::vector<float>&)>;
  const std::vector<std::pair<const char*, Begin>> kinds{
      {"broadcast", [](Communicator& comm, auto& in,
                       auto&) { return comm.broadcast_async(view(comm, in), comm.size() - 1); }},
      {"all_reduce",
       [](Communicator& comm, auto& in, auto&) { return comm.all_reduce_async(view(comm, in)); }},
      {"all_gather", [](Communicator& comm, auto& in,
                        auto& out) { return comm.all_gather_async(view(comm, in), view(comm, out)); }},
      {"all_gather_v",
       [](Communicator& comm, auto& in, auto& out) {
         const std::vector<int64_t> counts(comm.size(), static_cast<int64_t>(in.size()));
         return comm.all_gather_v_async(view(comm, in), view(comm, out), counts);
       }},
      {"reduce_scatter",
       [](Communicator& comm, auto& in, auto& out) {
         return comm.reduce_scatter_async(view(comm, out), view(comm, in));
       }},
      {"reduce_scatter_v",
       [](Communicator& comm, auto& in, auto& out) {
         const std::vector<int64_t> counts(comm.size(), static_cast<int64_t>(in.size()));
         return comm.reduce_scatter_v_async(view(comm, out), view(comm, in), counts);
       }},
      {"all_to_all_v",
       [](Communicator& comm, auto& in, auto& out) {
         const std::vector<int64_t> counts(comm.size(), static_cast<int64_t>(in.size()));
         return comm.all_to_all_v_async(view(comm, out), counts, view(comm, out), counts);
       }},
      {"send_recv",
       [](Communicator& comm, auto& in, auto&) {
         const Receive receive[] = {{comm.size() - 1, view(comm, in)}};
         return comm.send_recv_async({}, receive);
       }},
  };
  for (const auto& [name, begin] : kinds)
    run([&, begin = begin, name = name](Communicator& comm) {
      if (comm.size() == 1) return;
      auto &in = never_freed<float>(30000), &out = never_freed<float>(30000 * comm.size());
      if (comm.rank() == comm.size() - 1) {
        comm.barrier();
        comm.abort("enough");
        return;
      }
      std::string text;
      const ErrorCode code = code_of(
          [&] {
            comm.barrier();  // the abort may come before it has returned here
            begin(comm, in, out)->wait();
            settle(comm);
            comm.barrier();
          },
          &text);
      EXPECT_STREQ(to_string(code), to_string(ErrorCode::peer_failed)) << name << ": " << text;
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
