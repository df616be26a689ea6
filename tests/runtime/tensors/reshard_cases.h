// Reshards run by ranks that know only their own part, over a communicator.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "runtime/comm/communicator.h"
#include "runtime/tensors/reshard_traffic.h"
#include "runtime/tensors/resharder.h"
#include "tests/runtime/tensors/counting_communicator.h"
#include "tests/runtime/tensors/random_layouts.h"
#include "tests/runtime/tensors/reshard_oracle.h"

namespace trireme::tensors {

/// A rank's blocks of one type, each element a small whole number that every type here holds.
class NumberBlocks {
 public:
  explicit NumberBlocks(comm::DType dtype) : dtype_(dtype) {}
  NumberBlocks(comm::DType dtype, const std::vector<std::vector<int64_t>>& numbers) : dtype_(dtype) {
    for (const auto& block : numbers) {
      storage_.emplace_back(block.size() * comm::size_of(dtype));
      blocks_.push_back(storage_.back().data());
      for (size_t i = 0; i < block.size(); ++i) put(storage_.size() - 1, i, value_of(block[i]));
    }
  }
  BlockMemory view() const { return {blocks_, dtype_}; }

  static float value_of(int64_t number) { return static_cast<float>(number < 0 ? -1 : number % 251); }

  void put(size_t block, size_t i, float value) {
    if (dtype_ == comm::DType::i32) {
      const auto whole = static_cast<int32_t>(value);
      std::memcpy(&storage_[block][4 * i], &whole, 4);
    } else {
      convert(reinterpret_cast<const std::byte*>(&value), comm::DType::f32,
              &storage_[block][comm::size_of(dtype_) * i], dtype_, 1);
    }
  }
  float at(size_t block, size_t i) const {
    const std::byte* from = &storage_[block][comm::size_of(dtype_) * i];
    if (dtype_ == comm::DType::i32) {
      int32_t whole;
      std::memcpy(&whole, from, 4);
      return static_cast<float>(whole);
    }
    float value;
    convert(from, dtype_, reinterpret_cast<std::byte*>(&value), comm::DType::f32, 1);
    return value;
  }

 private:
  comm::DType dtype_;
  std::vector<std::vector<std::byte>> storage_;
  std::vector<std::byte*> blocks_;
};

/// Marks what a shared matrix leaves untouched in the destination's memory; its elements lie at the source,
/// in order.
inline void take_out(const std::vector<TensorSpec>& tensors, const Shared& shared,
                     const std::vector<std::vector<int64_t>>& held,
                     std::vector<std::vector<int64_t>>& wanted) {
  int64_t begin = 0, end = 0;
  for (int i = 0; i < shared.first; ++i) begin += oracle::numel(tensors[i]);
  end = begin;
  for (int i = shared.first; i < shared.last; ++i) end += oracle::numel(tensors[i]);
  int64_t source = shared.offset;
  for (int64_t& number : wanted[shared.block])
    if (number >= begin && number < end) {
      ASSERT_EQ(held[shared.block].at(source++), number);
      number = -1;
    }
}

/// Where it happens: `settle` returns when what was enqueued on a GPU has been done.
struct Where {
  GpuToolkit gpu = {};
  std::function<void()> settle = [] {};
};

// One reshard, run twice: each rank's memory ends up as the oracle says, and what travelled is what the plan
// says, and as little as can be.
inline void expect_resharded(comm::Communicator& world, const std::vector<TensorSpec>& tensors,
                             const Reshard& reshard, const Where& where = {}) {
  const auto held = oracle::memories(tensors, reshard.from, world.size())[world.rank()];
  auto wanted = oracle::memories(tensors, reshard.to, world.size())[world.rank()];
  CountingCommunicator counting(world);
  Resharder resharder(counting, reshard, where.gpu);
  const NumberBlocks source(reshard.from.dtype, held);
  const auto all_wanted = wanted;
  for (const Shared& shared : resharder.shared()) take_out(tensors, shared, held, wanted);
  for (int step = 1; step <= 2; ++step) {
    NumberBlocks target(reshard.to.dtype, all_wanted);
    for (size_t b = 0; b < wanted.size(); ++b)
      for (size_t i = 0; i < wanted[b].size(); ++i) target.put(b, i, -1);
    resharder.run(source.view(), target.view());
    where.settle();
    for (size_t b = 0; b < wanted.size(); ++b)
      for (size_t i = 0; i < wanted[b].size(); ++i)
        ASSERT_EQ(target.at(b, i), NumberBlocks::value_of(wanted[b][i]))
            << "rank " << world.rank() << " block " << b << " element " << i << " step " << step;
    ASSERT_EQ(counting.sent, step * resharder.sent_bytes());
    ASSERT_EQ(counting.received, step * resharder.received_bytes());
  }
  const Traffic traffic = traffic_of(reshard);
  const int rank = world.rank();
  EXPECT_EQ(resharder.sent_bytes(), traffic.inside[rank].sent + traffic.across[rank].sent);
  EXPECT_EQ(resharder.received_bytes(), traffic.inside[rank].received + traffic.across[rank].received);
  const auto element = static_cast<int64_t>(comm::size_of(wire_dtype(reshard)));
  EXPECT_EQ(world.all_reduce_scalar(static_cast<double>(counting.sent)),
            static_cast<double>(2 * element * oracle::bounds(reshard).moved));
}

// Random layouts and types over all ranks of `world`.
inline void expect_random_reshards(comm::Communicator& world, uint64_t first_seed, uint64_t last_seed,
                                   const Where& where = {}) {
  using comm::DType;
  static constexpr std::pair<DType, DType> kTypes[] = {{DType::i32, DType::i32},
                                                       {DType::f32, DType::bf16},
                                                       {DType::bf16, DType::f32},
                                                       {DType::bf16, DType::bf16}};
  for (uint64_t seed = first_seed; seed < last_seed; ++seed) {
    SCOPED_TRACE(seed);
    RandomLayouts random(seed);
    const auto tensors = random.tensors();
    Layout from = random.layout(tensors, world.size(), "actor");
    Layout to = random.layout(tensors, world.size(), "rollout");
    std::tie(from.dtype, to.dtype) = kTypes[seed % 4];
    const Reshard reshard{tensors, from, to, random.nodes(world.size()), random.options()};
    ASSERT_TRUE(check(reshard).empty());
    expect_resharded(world, tensors, reshard, where);
  }
}

}  // namespace trireme::tensors
