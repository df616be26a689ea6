// The real kernel on a real GPU, against the host's staging.
#include <gtest/gtest.h>

#include <random>

#include "runtime/tensors/gpu_staging.h"

namespace trireme::tensors {
namespace {

using comm::DType;

bool has_gpu() {
  try {
    return comm::gpu_calls() && comm::gpu_calls()->device_id(comm::gpu_calls()->current_device()) != "";
  } catch (const Error&) {
    return false;
  }
}

class OnGpu {
 public:
  explicit OnGpu(const std::vector<std::byte>& bytes)
      : size_(bytes.size()), memory_(static_cast<std::byte*>(comm::gpu_calls()->allocate(size_))) {
    comm::gpu_calls()->copy(memory_, bytes.data(), size_, nullptr);
    comm::gpu_calls()->synchronize(nullptr);
  }
  ~OnGpu() { comm::gpu_calls()->free(memory_); }
  std::byte* data() { return memory_; }
  std::vector<std::byte> read() const {
    std::vector<std::byte> bytes(size_);
    comm::gpu_calls()->copy(bytes.data(), memory_, size_, nullptr);
    comm::gpu_calls()->synchronize(nullptr);
    return bytes;
  }

 private:
  size_t size_;
  std::byte* memory_;
};

// Columns of a matrix: fp32 masters to bf16 on the way, to bf16 and fp32 weights.
TEST(GpuStagingOnAGpu, HasTheHostsBytes) {
  if (!has_gpu()) GTEST_SKIP() << "no usable GPU";
  constexpr int64_t kRows = 300, kColumns = 4096, kWidth = 1500;
  std::mt19937 random(1);
  std::vector<std::byte> source(kRows * kColumns * 4);
  for (auto& byte : source) byte = static_cast<std::byte>(random());
  const Strided columns{7, 2, {kRows, kWidth}, {kColumns, 1}};
  RankPlan plan;
  Round& only = plan.rounds.emplace_back();
  only.packs = only.unpacks = {{0, columns, 0}};
  only.packed_bytes = kRows * kWidth * 2;
  for (const DType to_type : {DType::bf16, DType::f32}) {
    const std::vector<std::byte> zeros(kRows * kColumns * comm::size_of(to_type));
    std::vector<std::byte> from = source, to = zeros, buffer(only.packed_bytes);
    std::byte *from_block = from.data(), *to_block = to.data();
    pack(only.packs, {{&from_block, 1}, DType::f32}, buffer.data(), DType::bf16);
    unpack(only.unpacks, buffer.data(), DType::bf16, {{&to_block, 1}, to_type});

    OnGpu gpu_from(source), gpu_to(zeros);
    std::byte *gpu_from_block = gpu_from.data(), *gpu_to_block = gpu_to.data();
    const auto staging = gpu_staging(plan, DType::bf16, {});
    std::byte* staged = staging->allocate(only.packed_bytes);
    staging->pack(0, {{&gpu_from_block, 1}, DType::f32}, staged);
    staging->unpack(0, staged, {{&gpu_to_block, 1}, to_type});
    EXPECT_TRUE(gpu_to.read() == to) << comm::to_string(to_type);
  }
}

}  // namespace
}  // namespace trireme::tensors
