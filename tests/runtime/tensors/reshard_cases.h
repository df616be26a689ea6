// The plan executed by ranks that know only their own part, over a communicator: each round is one exchange
// of bytes between all ranks.
#pragma once

#include <gtest/gtest.h>

#include <cstring>

#include "runtime/comm/communicator.h"
#include "runtime/tensors/reshard_plan.h"
#include "runtime/tensors/staging.h"
#include "tests/runtime/tensors/random_layouts.h"
#include "tests/runtime/tensors/reshard_oracle.h"

namespace trireme::tensors {

class CommunicatorReshard {
 public:
  CommunicatorReshard(comm::Communicator& world, const Reshard& reshard)
      : world_(world), wire_(wire_dtype(reshard)), plan_(plan_for(reshard, world.rank())) {}

  const RankPlan& plan() const { return plan_; }

  void run(const BlockMemory& from, const BlockMemory& to) {
    copy(plan_.copies, from, to);
    std::vector<std::byte> received;
    auto next = plan_.rounds.begin();
    static const Round kNothing;
    for (int index = 0; index < plan_.num_rounds; ++index) {
      const bool mine = next != plan_.rounds.end() && next->index == index;
      received = exchange(mine ? *next : kNothing, from, received);
      if (mine) unpack((next++)->unpacks, received.data(), wire_, to);
    }
  }

 private:
  std::vector<std::byte> exchange(const Round& round, const BlockMemory& from,
                                  const std::vector<std::byte>& before) {
    std::vector<std::byte> packed(round.packed_bytes), received(round.received_bytes);
    pack(round.packs, from, packed.data(), wire_);
    std::vector<std::vector<std::byte>> to_peer(world_.size());
    std::vector<int64_t> sent(world_.size()), awaited(world_.size());
    const auto put = [&](const Message& m, const std::vector<std::byte>& buffer) {
      to_peer[m.peer].insert(to_peer[m.peer].end(), buffer.begin() + m.at, buffer.begin() + m.at + m.bytes);
      sent[m.peer] += m.bytes;
    };
    for (const Message& m : round.forwards) put(m, before);
    for (const Message& m : round.sends) put(m, packed);
    std::vector<std::byte> out;
    for (const auto& bytes : to_peer) out.insert(out.end(), bytes.begin(), bytes.end());
    int64_t total = 0;
    for (const Message& m : round.receives) {
      awaited[m.peer] += m.bytes;
      total += m.bytes;
    }
    std::vector<std::byte> in(total);
    world_.all_to_all_v({out.data(), static_cast<int64_t>(out.size()), comm::DType::u8}, sent,
                        {in.data(), total, comm::DType::u8}, awaited);
    std::vector<int64_t> at(world_.size());  // where the next message of each peer lies in `in`
    for (int peer = 1; peer < world_.size(); ++peer) at[peer] = at[peer - 1] + awaited[peer - 1];
    for (const Message& m : round.receives) {
      std::memcpy(received.data() + m.at, in.data() + at[m.peer], m.bytes);
      at[m.peer] += m.bytes;
    }
    return received;
  }

  comm::Communicator& world_;
  comm::DType wire_;
  RankPlan plan_;
};

// Random layouts over all ranks of `world`: each rank's memory ends up as the oracle says.
inline void expect_resharded(comm::Communicator& world, uint64_t first_seed, uint64_t last_seed) {
  for (uint64_t seed = first_seed; seed < last_seed; ++seed) {
    SCOPED_TRACE(seed);
    RandomLayouts random(seed);
    const auto tensors = random.tensors();
    const Layout from = random.layout(tensors, world.size(), "actor");
    const Layout to = random.layout(tensors, world.size(), "rollout");
    Reshard reshard{tensors, from, to, random.nodes(world.size()), random.options()};
    reshard.options.share = false;  // so that all of the destination's memory is written
    ASSERT_TRUE(check(reshard).empty());
    const auto held = oracle::memories(tensors, from, world.size())[world.rank()];
    const auto wanted = oracle::memories(tensors, to, world.size())[world.rank()];
    std::vector<std::vector<int32_t>> source, target;
    std::vector<std::byte*> source_blocks, target_blocks;
    for (const auto& block : held) source.emplace_back(block.begin(), block.end());
    for (const auto& block : wanted) target.emplace_back(block.size(), -1);
    for (auto& block : source) source_blocks.push_back(reinterpret_cast<std::byte*>(block.data()));
    for (auto& block : target) target_blocks.push_back(reinterpret_cast<std::byte*>(block.data()));
    CommunicatorReshard executed(world, reshard);
    for (int step = 0; step < 2; ++step) {  // a plan is run again and again
      for (auto& block : target) std::fill(block.begin(), block.end(), -1);
      executed.run({source_blocks, comm::DType::i32}, {target_blocks, comm::DType::i32});
      for (size_t b = 0; b < wanted.size(); ++b)
        for (size_t i = 0; i < wanted[b].size(); ++i) ASSERT_EQ(target[b][i], wanted[b][i]);
    }
  }
}

}  // namespace trireme::tensors
