// The NCCL communicator and the staged one, on doubles of the GPU's runtime and of NCCL.
#include "runtime/comm/nccl_communicator.h"

#include "runtime/comm/local_communicator.h"
#include "runtime/comm/staged_communicator.h"
#include "tests/runtime/comm/conformance_suite.h"
#include "tests/runtime/comm/nccl_double.h"

namespace trireme::comm::conformance {
namespace {

using namespace std::chrono_literals;

thread_local GpuDouble* this_ranks_gpu = nullptr;

void settle_gpu(Communicator&) {
  this_ranks_gpu->synchronize_all();
}

// `body` on every rank, with a GPU and an NCCL of its own.
void on_gpus(
    int num_ranks, const std::function<void(Communicator& host, GpuDouble&, NcclDouble&)>& body,
    const std::function<std::string(int)>& id = [](int r) { return "gpu " + std::to_string(r); }) {
  LocalWorld::run(num_ranks, [&](Communicator& host) {
    GpuDouble gpu(id(host.rank()));
    {
      NcclDouble nccl(gpu);
      this_ranks_gpu = &gpu;
      body(host, gpu, nccl);
    }
    EXPECT_EQ(gpu.in_use(), 0) << "streams, events or memory left on rank " << host.rank();
  });
}

Setting gpus(int num_ranks) {
  const auto run = [num_ranks](const auto& body) {
    on_gpus(num_ranks, [&](Communicator& host, GpuDouble& gpu, NcclDouble& nccl) {
      {
        NcclCommunicator comm(gpu, nccl, host);
        host.barrier();  // a body that fails must not catch others in the opening
        body(comm);
        if (comm.abort_reason().empty()) comm.close();
      }
      EXPECT_EQ(nccl.uses_after_end(), 0);
    });
  };
  return {std::to_string(num_ranks) + "Gpus", run, settle_gpu, ErrorCode::nccl, false, false};
}

Setting sharing_a_gpu(int num_ranks) {
  const auto run = [num_ranks](const auto& body) {
    on_gpus(num_ranks, [&](Communicator& host, GpuDouble& gpu, NcclDouble&) {
      StagedCommunicator comm(gpu, host);
      body(comm);
    });
  };
  return {std::to_string(num_ranks) + "SharingAGpu", run, settle_gpu};
}

INSTANTIATE_TEST_SUITE_P(Nccl, CommunicatorTest, testing::Values(gpus(1), gpus(2), gpus(3), gpus(4)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Staged, CommunicatorTest,
                         testing::Values(sharing_a_gpu(1), sharing_a_gpu(2), sharing_a_gpu(3)), name_of);

TEST(NcclCommunicator, RefusesTwoRanksOnOneGpu) {
  on_gpus(
      3,
      [](Communicator& host, GpuDouble& gpu, NcclDouble& nccl) {
        std::string text;
        const ErrorCode code = code_of([&] { NcclCommunicator comm(gpu, nccl, host); }, &text);
        // Who sees it first tells the others.
        EXPECT_TRUE(code == ErrorCode::nccl || code == ErrorCode::peer_failed);
        EXPECT_NE(text.find("invalid usage"), std::string::npos) << text;
      },
      [](int rank) { return rank == 0 ? "a" : "b"; });
}

TEST(NcclCommunicator, AnOpeningThatFailsOnOneRankFailsOnAll) {
  on_gpus(3, [](Communicator& host, GpuDouble& gpu, NcclDouble& nccl) {
    if (host.rank() == 1) nccl.fail_next = NcclResult::system_error;
    const ErrorCode code = code_of([&] { NcclCommunicator comm(gpu, nccl, host); });
    EXPECT_EQ(code, host.rank() == 1 ? ErrorCode::nccl : ErrorCode::peer_failed);
  });
}

TEST(NcclCommunicator, ARankWithoutAnIdTellsTheOthers) {
  on_gpus(2, [](Communicator& host, GpuDouble& gpu, NcclDouble& nccl) {
    if (host.rank() == 0) nccl.fail_next = NcclResult::system_error;
    const ErrorCode code = code_of([&] { NcclCommunicator comm(gpu, nccl, host); });
    EXPECT_TRUE(code == ErrorCode::nccl || code == ErrorCode::peer_failed);
  });
}

TEST(NcclCommunicator, AMissingRankEndsTheOpeningInATimeout) {
  on_gpus(2, [](Communicator& host, GpuDouble& gpu, NcclDouble& nccl) {
    if (host.rank() == 1) {  // takes the id and is never seen again
      std::array<char, sizeof(NcclId) + sizeof(NcclResult)> first;
      host.broadcast({first.data(), static_cast<int64_t>(first.size()), DType::u8}, 0);
      return;
    }
    EXPECT_EQ(code_of([&] { NcclCommunicator comm(gpu, nccl, host, {.timeout = 30ms}); }),
              ErrorCode::timeout);
  });
}

TEST(NcclCommunicator, ACollectiveThatARankNeverEntersEndsInATimeout) {
  on_gpus(2, [](Communicator& host, GpuDouble& gpu, NcclDouble& nccl) {
    NcclCommunicator comm(gpu, nccl, host, {.timeout = host.rank() == 0 ? 30ms : 60000ms});
    std::vector<float> data(100);
    if (host.rank() == 0) {
      const WorkHandle work = comm.all_reduce_async(view(comm, data), ReduceOp::sum);
      std::string text;
      EXPECT_EQ(code_of([&] { work->wait(); }, &text), ErrorCode::timeout);
      EXPECT_NE(text.find("all_reduce(sum, 100 x f32)"), std::string::npos) << text;
      EXPECT_EQ(code_of([&] { comm.barrier(); }), ErrorCode::timeout);
    } else {
      while (comm.host().abort_reason().empty()) std::this_thread::yield();
      EXPECT_EQ(code_of([&] { comm.barrier(); }), ErrorCode::peer_failed);
    }
  });
}

// The host thread sits in a synchronization, as LibTorch's .item() does: only the watching thread can end it.
TEST(NcclCommunicator, AHostThatWaitsForItsStreamIsFreedByTheWatch) {
  on_gpus(2, [](Communicator& host, GpuDouble& gpu, NcclDouble& nccl) {
    NcclCommunicator comm(gpu, nccl, host, {.timeout = 30ms});
    std::vector<float> data(100);
    if (host.rank() == 0) {
      comm.all_reduce(view(comm, data), ReduceOp::sum);
      gpu.synchronize(nullptr);
      EXPECT_EQ(code_of([&] { comm.barrier(); }), ErrorCode::timeout);
    } else {
      while (comm.host().abort_reason().empty()) std::this_thread::yield();
    }
  });
}

TEST(NcclCommunicator, AnErrorOfACallIsNcclsAndEndsTheCommunicator) {
  on_gpus(2, [](Communicator& host, GpuDouble& gpu, NcclDouble& nccl) {
    NcclCommunicator comm(gpu, nccl, host);
    std::vector<float> data(10);
    const ErrorCode code = code_of([&] {
      comm.barrier();  // the abort may come before it has returned on the other rank
      if (host.rank() == 0) nccl.fail_next = NcclResult::internal_error;
      comm.all_reduce(view(comm, data), ReduceOp::sum);
      gpu.synchronize_all();
      comm.barrier();
    });
    EXPECT_EQ(code, host.rank() == 0 ? ErrorCode::nccl : ErrorCode::peer_failed);
    EXPECT_EQ(nccl.uses_after_end(), 0);
  });
}

TEST(NcclCommunicator, OperationsFollowTheComputeStreamAndAreFollowedByIt) {
  on_gpus(2, [](Communicator& host, GpuDouble& gpu, NcclDouble& nccl) {
    const GpuStream compute = gpu.create_stream();
    {
      NcclCommunicator comm(gpu, nccl, host, {.compute = compute});
      std::vector<float> data(10, -1.0f);
      float seen = 0;
      for (int round = 1; round <= 20; ++round) {
        gpu.enqueue(compute, [&, round] {
          std::this_thread::sleep_for(1ms);
          data.assign(10, static_cast<float>(round));
        });
        comm.all_reduce(view(comm, data), ReduceOp::sum);
        gpu.enqueue(compute, [&] { seen += data[9]; });
      }
      gpu.synchronize(compute);
      EXPECT_EQ(seen, 2 * 210);
      const WorkHandle work = comm.all_reduce_async(view(comm, data), ReduceOp::sum);
      work->wait();
      gpu.enqueue(compute, [&] { seen = data[0]; });
      gpu.synchronize(compute);
      EXPECT_EQ(seen, 80);
      comm.close();
    }
    gpu.destroy_stream(compute);
  });
}

TEST(NcclCommunicator, NothingGoesAfterClose) {
  on_gpus(2, [](Communicator& host, GpuDouble& gpu, NcclDouble& nccl) {
    NcclCommunicator comm(gpu, nccl, host);
    comm.close();
    EXPECT_EQ(code_of([&] { comm.barrier(); }), ErrorCode::internal);
    EXPECT_EQ(nccl.uses_after_end(), 0);
  });
}

TEST(NcclCommunicator, SeveralCommunicatorsOfOneGpuRunSideBySide) {
  LocalWorld second(2, "critic");
  on_gpus(2, [&](Communicator& host, GpuDouble& gpu, NcclDouble& nccl) {
    NcclCommunicator actor(gpu, nccl, host), critic(gpu, nccl, second.communicator(host.rank()));
    std::vector<double> a(1000, 1.0), c(1000, 2.0);
    for (int i = 0; i < 5; ++i) {
      actor.all_reduce(view(actor, a), ReduceOp::sum);
      critic.all_reduce(view(critic, c), ReduceOp::sum);
    }
    gpu.synchronize_all();
    EXPECT_EQ(a[999], 32.0);
    EXPECT_EQ(c[0], 64.0);
    actor.close();
    critic.close();
  });
}

// Side by side they could wait for each other's peers for ever, where a GPU has no room for both.
TEST(NcclCommunicator, OperationsOfOneGpuRunInTheOrderOfTheCalls) {
  LocalWorld second(3, "critic");
  on_gpus(3, [&](Communicator& host, GpuDouble& gpu, NcclDouble& nccl) {
    {
      NcclCommunicator actor(gpu, nccl, host), critic(gpu, nccl, second.communicator(host.rank()));
      std::vector<std::vector<float>> data(40, std::vector<float>(1000, 1.0f));
      std::vector<WorkHandle> work;
      for (size_t i = 0; i < data.size(); ++i) {
        Communicator& comm = i % 3 == 0 ? critic : actor;
        work.push_back(comm.all_reduce_async(view(comm, data[i])));
      }
      for (const auto& one : work) one->wait();
      for (const auto& each : data) EXPECT_EQ(each[999], 3.0f);
      const auto ran = nccl.ran();
      ASSERT_EQ(ran.size(), data.size());
      for (size_t i = 0; i < ran.size(); ++i) EXPECT_EQ(ran[i], ran[i % 3 == 0 ? 0 : 1]) << i;
      EXPECT_NE(ran[0], ran[1]);
      EXPECT_EQ(nccl.side_by_side(), 1);
      actor.close();
      critic.close();
    }
  });
}

// What the double promises to refuse, so that the tests above mean something.
TEST(NcclDouble, RefusesUseAfterAbort) {
  on_gpus(1, [](Communicator&, GpuDouble& gpu, NcclDouble& nccl) {
    NcclId id;
    NcclHandle comm;
    nccl.get_unique_id(&id);
    EXPECT_EQ(nccl.init(&comm, 1, id, 0), NcclResult::in_progress);
    EXPECT_EQ(nccl.abort(comm), NcclResult::success);
    float x = 1;
    EXPECT_EQ(nccl.all_reduce({&x, 1, DType::f32, Device::gpu}, ReduceOp::sum, comm, nullptr),
              NcclResult::invalid_argument);
    EXPECT_EQ(nccl.abort(comm), NcclResult::invalid_argument);
    EXPECT_EQ(nccl.uses_after_end(), 2);
    gpu.synchronize_all();
  });
}

TEST(NcclDouble, ACollectiveBlocksUntilAllHaveEntered) {
  NcclId id{};
  std::atomic<bool> second_entered{false}, first_left_early{false};
  on_gpus(2, [&](Communicator& host, GpuDouble& gpu, NcclDouble& nccl) {
    NcclHandle comm;
    if (host.rank() == 0) nccl.get_unique_id(&id);
    host.barrier();
    nccl.init(&comm, 2, id, host.rank());
    host.barrier();
    float x = 1;
    if (host.rank() == 1) {
      std::this_thread::sleep_for(5ms);
      second_entered = true;
    }
    nccl.all_reduce({&x, 1, DType::f32, Device::gpu}, ReduceOp::sum, comm, nullptr);
    gpu.enqueue(nullptr, [&] {
      if (!second_entered) first_left_early = true;
    });
    gpu.synchronize(nullptr);
    EXPECT_EQ(x, 2);
    host.barrier();
  });
  EXPECT_FALSE(first_left_early);
}

}  // namespace
}  // namespace trireme::comm::conformance
