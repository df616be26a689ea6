// Ranks as rows of a table: a reshard executed over plain memory, message by message, each buffer no larger
// than the plan says.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/tensors/staging.h"

namespace trireme::tensors {

/// A role's memory on one rank, filled with one byte.
struct RoleMemory {
  RoleMemory(const std::vector<int64_t>& block_numel, comm::DType dtype_, int fill) : dtype(dtype_) {
    for (const int64_t count : block_numel)
      storage.emplace_back(count * comm::size_of(dtype), static_cast<std::byte>(fill));
    for (auto& block : storage) blocks.push_back(block.data());
  }
  BlockMemory view() const { return {blocks, dtype}; }

  comm::DType dtype;
  std::vector<std::vector<std::byte>> storage;
  std::vector<std::byte*> blocks;
};

/// One rank walking its rounds. Buffers are exactly as large as the round says, so that a sanitizer sees
/// more.
class PlainRank {
 public:
  PlainRank(const RankPlan& plan, BlockMemory from, BlockMemory to, comm::DType wire)
      : plan_(plan), from_(from), to_(to), wire_(wire) {}

  using Wire = std::map<std::pair<int, int>, std::deque<std::vector<std::byte>>>;  // (from, to) -> messages

  void copy_kept() { copy(plan_.copies, from_, to_); }

  const Round* round(int index) const {
    for (const Round& round : plan_.rounds)
      if (round.index == index) return &round;
    return nullptr;
  }

  void send(int rank, int index, Wire& wire) {
    const Round* now = round(index);
    if (now == nullptr) return;
    std::vector<std::byte> packed(now->packed_bytes);
    pack(now->packs, from_, packed.data(), wire_);
    const auto put = [&](const Message& m, std::vector<std::byte>& buffer, const BlockMemory& memory) {
      const std::byte* data = place(m, buffer, memory);
      wire[{rank, m.peer}].emplace_back(data, data + m.bytes);
    };
    for (const Message& m : now->forwards) {
      ASSERT_EQ(received_index_, index - 1) << "what is passed on came in the round before";
      put(m, received_, to_);
    }
    for (const Message& m : now->sends) put(m, packed, from_);
  }

  void receive(int rank, int index, Wire& wire) {
    const Round* now = round(index);
    if (now == nullptr) return;
    received_.assign(now->received_bytes, std::byte{0xee});
    received_index_ = index;
    for (const Message& m : now->receives) {
      auto& messages = wire[{m.peer, rank}];
      ASSERT_FALSE(messages.empty()) << "rank " << rank << " waits for " << m.peer << " in round " << index;
      ASSERT_EQ(static_cast<int64_t>(messages.front().size()), m.bytes);
      std::copy(messages.front().begin(), messages.front().end(), place(m, received_, to_));
      messages.pop_front();
    }
    unpack(now->unpacks, received_.data(), wire_, to_);
  }

 private:
  static std::byte* place(const Message& m, std::vector<std::byte>& buffer, const BlockMemory& memory) {
    if (m.block != Message::kStaged) return memory.blocks[m.block] + m.at;
    EXPECT_LE(m.at + m.bytes, static_cast<int64_t>(buffer.size()));
    return buffer.data() + m.at;
  }

  const RankPlan& plan_;
  BlockMemory from_, to_;
  comm::DType wire_;
  std::vector<std::byte> received_;
  int received_index_ = -1;
};

/// All ranks, round by round. Fails if a message is left over or is waited for in vain.
inline void execute(std::vector<PlainRank>& ranks, int num_rounds) {
  const int size = static_cast<int>(ranks.size());
  PlainRank::Wire wire;
  for (PlainRank& rank : ranks) rank.copy_kept();
  for (int index = 0; index < num_rounds; ++index) {
    for (int rank = 0; rank < size; ++rank) ranks[rank].send(rank, index, wire);
    for (int rank = 0; rank < size; ++rank) ranks[rank].receive(rank, index, wire);
    for (const auto& [ends, messages] : wire)
      ASSERT_TRUE(messages.empty()) << "in round " << index << " rank " << ends.first << " sent to "
                                    << ends.second << " what is not received there";
  }
}

}  // namespace trireme::tensors
