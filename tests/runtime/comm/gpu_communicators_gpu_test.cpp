// The real runtime and the real NCCL, as far as one GPU goes: one rank through NCCL, two ranks that share
// the GPU through pinned memory.
#include <gtest/gtest.h>

#include <numeric>
#include <optional>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/comm/local_communicator.h"
#include "runtime/comm/nccl_communicator.h"
#include "runtime/comm/staged_communicator.h"

namespace trireme::comm {
namespace {

std::optional<std::string> no_gpu() {
  if (!gpu_calls()) return "this build has no GPU support";
  try {
    gpu_calls()->free(gpu_calls()->allocate(1));
  } catch (const Error& error) {
    return std::string("no usable GPU: ") + error.what();
  }
  return std::nullopt;
}

#define NEEDS_GPU() \
  if (const auto reason = no_gpu()) GTEST_SKIP() << *reason

class OnGpu {
 public:
  explicit OnGpu(std::vector<float> values)
      : host_(std::move(values)), memory_(gpu_calls()->allocate(bytes())) {
    gpu_calls()->copy(memory_, host_.data(), bytes(), nullptr);
    gpu_calls()->synchronize(nullptr);
  }
  ~OnGpu() { gpu_calls()->free(memory_); }
  BufferView view() { return {memory_, static_cast<int64_t>(host_.size()), DType::f32, Device::gpu}; }
  std::vector<float> read() {
    gpu_calls()->copy(host_.data(), memory_, bytes(), nullptr);
    gpu_calls()->synchronize(nullptr);
    return host_;
  }

 private:
  size_t bytes() const { return host_.size() * sizeof(float); }
  std::vector<float> host_;
  void* memory_;
};

std::vector<float> counted(size_t n, float from) {
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), from);
  return values;
}

TEST(GpuCommunicators, NcclWithOneRankOpensWorksAndCloses) {
  NEEDS_GPU();
  LocalWorld world(1);
  NcclCommunicator comm(*gpu_calls(), *nccl_calls(), world.communicator(0),
                        {.timeout = std::chrono::seconds(60)});
  OnGpu data(counted(1000, 1)), copy(counted(1000, 0));
  comm.all_reduce(data.view(), ReduceOp::sum);
  comm.all_gather(data.view(), copy.view());
  comm.barrier();
  comm.broadcast_async(data.view(), 0)->wait();
  EXPECT_EQ(copy.read(), counted(1000, 1));
  comm.close();
}

TEST(GpuCommunicators, AnAbortedNcclCommunicatorRefuses) {
  NEEDS_GPU();
  LocalWorld world(1);
  NcclCommunicator comm(*gpu_calls(), *nccl_calls(), world.communicator(0));
  comm.abort("enough");
  EXPECT_THROW(comm.barrier(), Error);
}

TEST(GpuCommunicators, RanksThatShareAGpuGoThroughPinnedMemory) {
  NEEDS_GPU();
  LocalWorld::run(2, [](Communicator& host) {
    StagedCommunicator comm(*gpu_calls(), host);
    OnGpu data(counted(5000, static_cast<float>(host.rank()))), both(std::vector<float>(10000));
    comm.all_gather(data.view(), both.view());
    EXPECT_EQ(both.read()[5000], 1);
    comm.all_reduce(data.view(), ReduceOp::sum);
    EXPECT_EQ(data.read()[7], 15);
  });
}

}  // namespace
}  // namespace trireme::comm
