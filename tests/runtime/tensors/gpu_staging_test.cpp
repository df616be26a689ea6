// A GPU's staging on a double of the GPU: against the host's, and in whole reshards over a double of NCCL.
#include "runtime/tensors/gpu_staging.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "runtime/comm/local_communicator.h"
#include "runtime/comm/nccl_communicator.h"
#include "tests/runtime/comm/nccl_double.h"
#include "tests/runtime/tensors/move_kernels_double.h"
#include "tests/runtime/tensors/reshard_cases.h"

namespace trireme::tensors {
namespace {

using comm::DType;
using Bytes = std::vector<std::byte>;

constexpr std::pair<DType, DType> kTypes[] = {{DType::f32, DType::f32},
                                              {DType::f32, DType::bf16},
                                              {DType::bf16, DType::f32},
                                              {DType::bf16, DType::bf16},
                                              {DType::i32, DType::i32}};

Bytes random_bytes(int64_t count, std::mt19937& random) {
  Bytes bytes(static_cast<size_t>(count));
  for (auto& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

// A box of chance inside one of chance; some rows longer than one team takes at a time.
Strided random_piece(std::mt19937& random, int64_t& room) {
  const int num_dims = 1 + static_cast<int>(random() % 3);
  std::vector<int64_t> dims;
  for (int d = 0; d + 1 < num_dims; ++d) dims.push_back(1 + random() % 7);
  dims.push_back(random() % 4 == 0 ? 1000 + random() % 2500 : 1 + random() % 40);
  const Box outer = whole(dims);
  Box box = outer;
  for (int d = 0; d < num_dims; ++d) {
    box.begin[d] = random() % dims[d];
    box.end[d] = box.begin[d] + 1 + random() % (dims[d] - box.begin[d]);
  }
  room = outer.numel();
  return strided(box, outer);
}

class GpuStagingTest : public testing::Test {
 protected:
  void TearDown() override {
    gpu.synchronize_all();
    gpu.destroy_stream(compute);
    EXPECT_EQ(gpu.in_use(), 0);
  }
  comm::GpuDouble gpu{"gpu"};
  comm::GpuStream compute = gpu.create_stream();
};

TEST_F(GpuStagingTest, PacksAndUnpacksAsTheHostDoes) {
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    const auto [memory_type, wire] = kTypes[round % std::size(kTypes)];
    const auto width = static_cast<int64_t>(comm::size_of(memory_type)),
               wire_width = static_cast<int64_t>(comm::size_of(wire));
    RankPlan plan;
    Round& only = plan.rounds.emplace_back();
    std::vector<Bytes> source, target;
    for (int b = 0; b < 4; ++b) {
      int64_t room = 0;
      const Strided where = random_piece(random, room);
      only.packs.push_back({b, where, only.packed_bytes});
      only.packed_bytes += where.numel() * wire_width;
      source.push_back(random_bytes(room * width, random));
      target.push_back(random_bytes(room * width, random));
    }
    std::shuffle(only.packs.begin(), only.packs.end(), random);
    only.unpacks = only.packs;
    auto host_target = target;
    const auto blocks_of = [](std::vector<Bytes>& memory) {
      std::vector<std::byte*> blocks;
      for (Bytes& block : memory) blocks.push_back(block.data());
      return blocks;
    };
    const auto from = blocks_of(source), to = blocks_of(target), host_to = blocks_of(host_target);

    Bytes expected(static_cast<size_t>(only.packed_bytes));
    pack(only.packs, {from, memory_type}, expected.data(), wire);
    unpack(only.unpacks, expected.data(), wire, {host_to, memory_type});
    {
      const auto staging = gpu_staging(plan, wire, toolkit_double(gpu, compute));
      std::byte* other = staging->allocate(16);
      std::byte* buffer = staging->allocate(only.packed_bytes);
      ASSERT_NE(other, buffer);
      staging->pack(0, {from, memory_type}, buffer);
      staging->unpack(0, buffer, {to, memory_type});
      gpu.synchronize_all();
      EXPECT_EQ(Bytes(buffer, buffer + only.packed_bytes), expected);
    }
    EXPECT_EQ(target, host_target) << "round " << round;
  }
}

TEST_F(GpuStagingTest, CopiesOnTheSpotAsTheHostDoes) {
  std::mt19937 random(5);
  for (int round = 0; round < 40; ++round) {
    const auto [from_type, to_type] = kTypes[round % std::size(kTypes)];
    const int64_t rows = 1 + random() % 9, width = 1 + random() % 70;
    const Strided columns{3, 2, {rows, width}, {width + 5, 1}}, dense{2, 1, {rows * width}, {1}};
    const bool gathers = round % 2 == 0;
    RankPlan plan;
    plan.copies.push_back({0, gathers ? columns : dense, gathers ? dense : columns});
    const int64_t room = 3 + rows * (width + 5);
    Bytes source = random_bytes(room * static_cast<int64_t>(comm::size_of(from_type)), random);
    Bytes target = random_bytes(room * static_cast<int64_t>(comm::size_of(to_type)), random);
    Bytes expected = target;
    std::byte *from = source.data(), *to = target.data(), *host_to = expected.data();
    copy(plan.copies, {{&from, 1}, from_type}, {{&host_to, 1}, to_type});
    {
      const auto staging = gpu_staging(plan, DType::bf16, toolkit_double(gpu, compute));
      staging->copy({{&from, 1}, from_type}, {{&to, 1}, to_type});
      gpu.synchronize_all();
    }
    EXPECT_EQ(target, expected) << "round " << round;
  }
}

// Blocks come and go between runs (ZeRO, offloading): the kernel is told where they are each time.
TEST_F(GpuStagingTest, MemoryMayLieElsewhereInTheNextRun) {
  RankPlan plan;
  const Strided all{0, 1, {64}, {1}};
  plan.copies.push_back({0, all, all});
  std::vector<std::vector<float>> sources(5, std::vector<float>(64)), targets = sources;
  {
    const auto staging = gpu_staging(plan, DType::f32, toolkit_double(gpu, compute));
    for (size_t i = 0; i < sources.size(); ++i) {
      sources[i].assign(64, static_cast<float>(i + 1));
      auto *from = reinterpret_cast<std::byte*>(sources[i].data()),
           *to = reinterpret_cast<std::byte*>(targets[i].data());
      staging->copy({{&from, 1}, DType::f32}, {{&to, 1}, DType::f32});
    }
    gpu.synchronize_all();
  }
  EXPECT_EQ(targets, sources);
}

TEST_F(GpuStagingTest, RefusesTypesThatItHasNoKernelFor) {
  RankPlan plan;
  const Strided all{0, 1, {8}, {1}};
  plan.copies.push_back({0, all, all});
  const auto staging = gpu_staging(plan, DType::i64, toolkit_double(gpu, compute));
  int64_t values[8] = {};
  auto* block = reinterpret_cast<std::byte*>(values);
  EXPECT_THROW(staging->copy({{&block, 1}, DType::i32}, {{&block, 1}, DType::f32}), Error);
  gpu.synchronize_all();
}

TEST(GpuStaging, NeedsAGpu) {
  EXPECT_THROW(gpu_staging({}, DType::bf16, {nullptr, nullptr, nullptr}), Error);
}

// Nothing but the kernels touches the ranks' memory, and streams run later than the calls.
TEST(ReshardOnGpus, EachRankWithItsOwnPartGetsItsElements) {
  for (const int num_ranks : {1, 2, 3, 4})
    comm::LocalWorld::run(num_ranks, [](comm::Communicator& host) {
      comm::GpuDouble gpu("gpu " + std::to_string(host.rank()));
      comm::NcclDouble nccl(gpu);
      const comm::GpuStream compute = gpu.create_stream();
      {
        comm::NcclCommunicator world(gpu, nccl, host, {.compute = compute});
        expect_random_reshards(world, 200, 240,
                               {toolkit_double(gpu, compute), [&] { gpu.synchronize_all(); }});
        world.close();
      }
      gpu.synchronize_all();
      gpu.destroy_stream(compute);
      EXPECT_EQ(gpu.in_use(), 0);
    });
}

}  // namespace
}  // namespace trireme::tensors
