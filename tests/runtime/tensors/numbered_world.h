// A world of plain ranks in which each element's value is its own number: a reshard is planned, executed and
// looked at element by element.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "runtime/tensors/reshard_traffic.h"
#include "tests/runtime/tensors/plain_ranks.h"
#include "tests/runtime/tensors/reshard_oracle.h"

namespace trireme::tensors {

using Blocks = std::vector<std::vector<int64_t>>;
inline constexpr int kUntouched = 0x55;

inline std::vector<int64_t> sizes(const Blocks& blocks) {
  std::vector<int64_t> all;
  for (const auto& block : blocks) all.push_back(static_cast<int64_t>(block.size()));
  return all;
}

inline int32_t& element(RoleMemory& memory, int block, int64_t offset) {
  return reinterpret_cast<int32_t*>(memory.blocks[block])[offset];
}

// Tensors of i32.
class NumberedWorld {
 public:
  explicit NumberedWorld(const Reshard& reshard)
      : reshard_(reshard), size_(static_cast<int>(reshard.node_of.size())) {
    held_ = oracle::memories(reshard.tensors, reshard.from, size_);
    wanted_ = oracle::memories(reshard.tensors, reshard.to, size_);
    for (int rank = 0; rank < size_; ++rank) {
      plans_.push_back(plan_for(reshard, rank));
      RoleMemory& source = from_.emplace_back(sizes(held_[rank]), comm::DType::i32, 0);
      to_.emplace_back(sizes(wanted_[rank]), comm::DType::i32, kUntouched);
      for (size_t b = 0; b < held_[rank].size(); ++b)
        for (size_t i = 0; i < held_[rank][b].size(); ++i)
          element(source, static_cast<int>(b), static_cast<int64_t>(i)) =
              static_cast<int32_t>(held_[rank][b][i]);
    }
  }

  void run() {
    std::vector<PlainRank> ranks;
    for (int rank = 0; rank < size_; ++rank)
      ranks.emplace_back(plans_[rank], from_[rank].view(), to_[rank].view(), comm::DType::i32);
    execute(ranks, plans_.empty() ? 0 : plans_[0].num_rounds);
  }

  // Each element in its place, padding untouched; what is shared was not written and is right at the source.
  void expect_every_element_right() {
    for (int rank = 0; rank < size_; ++rank) {
      Blocks expected = wanted_[rank];
      for (const Shared& shared : plans_[rank].shared) take_out(rank, shared, expected);
      for (size_t b = 0; b < expected.size(); ++b)
        for (size_t i = 0; i < expected[b].size(); ++i) {
          int32_t untouched;
          std::memset(&untouched, kUntouched, sizeof untouched);
          const int32_t value = element(to_[rank], static_cast<int>(b), static_cast<int64_t>(i));
          ASSERT_EQ(value, expected[b][i] == -1 ? untouched : expected[b][i])
              << "rank " << rank << " block " << b << " element " << i;
        }
    }
  }

  // What is unpacked was lacking, and comes once.
  void expect_nothing_received_twice() {
    for (int rank = 0; rank < size_; ++rank) {
      std::set<int64_t> here = oracle::elements(held_[rank]);
      for (const Round& round : plans_[rank].rounds) {
        for (const Message& m : round.receives)
          for (int64_t at = m.at; m.block != Message::kStaged && at < m.at + m.bytes; at += 4)
            ASSERT_TRUE(here.insert(wanted_[rank][m.block][at / 4]).second) << "rank " << rank;
        for (const Copy& copy : round.unpacks)
          for (Runs runs(copy.where); !runs.done(); runs.next())
            for (int64_t i = 0; i < runs.length(); ++i)
              ASSERT_TRUE(here.insert(wanted_[rank][copy.block][runs.offset() + i]).second)
                  << "rank " << rank;
      }
    }
  }

  void expect_traffic_at_the_bound() {
    const oracle::Bounds bounds = oracle::bounds(reshard_);
    const Traffic traffic = traffic_of(reshard_);
    EXPECT_EQ(traffic.moved, 4 * bounds.moved);
    EXPECT_EQ(traffic.moved_bound, 4 * bounds.moved);
    EXPECT_EQ(traffic.crossed, 4 * bounds.crossed);
    EXPECT_EQ(traffic.crossed_bound, 4 * bounds.crossed);
    EXPECT_EQ(std::accumulate(traffic.kept.begin(), traffic.kept.end(), int64_t{0}), 4 * bounds.kept);
    EXPECT_GE(traffic.largest_inside, traffic.largest_inside_bound);
    EXPECT_GE(traffic.largest_across, traffic.largest_across_bound);
    for (int rank = 0; rank < size_; ++rank) {
      Traffic::Bytes inside, across;
      const auto at = [&](int peer) -> Traffic::Bytes& {
        return reshard_.node_of[peer] == reshard_.node_of[rank] ? inside : across;
      };
      for (const Round& round : plans_[rank].rounds) {
        for (const Message& m : round.sends) at(m.peer).sent += m.bytes;
        for (const Message& m : round.forwards) at(m.peer).sent += m.bytes;
        for (const Message& m : round.receives) at(m.peer).received += m.bytes;
      }
      EXPECT_EQ(inside.sent, traffic.inside[rank].sent);
      EXPECT_EQ(inside.received, traffic.inside[rank].received);
      EXPECT_EQ(across.sent, traffic.across[rank].sent);
      EXPECT_EQ(across.received, traffic.across[rank].received);
      EXPECT_EQ(plans_[rank].num_rounds, traffic.num_rounds);
    }
  }

  void expect_memory_bounded() {
    for (const RankPlan& plan : plans_) {
      EXPECT_LE(plan.staging_bytes, reshard_.options.staging_bytes);
      std::map<std::pair<const char*, size_t>, int64_t> buffers;
      int before = -1;
      for (const Round& round : plan.rounds) {
        EXPECT_GT(round.index, before);
        before = round.index;
        const size_t parity = (&round - plan.rounds.data()) % 2;
        int64_t &packed = buffers[{"packed", parity}], &received = buffers[{"received", parity}];
        packed = std::max(packed, round.packed_bytes);
        received = std::max(received, round.received_bytes);
        EXPECT_LE(round.packed_bytes, reshard_.options.staging_bytes / 4);
        EXPECT_LE(round.received_bytes, reshard_.options.staging_bytes / 4);
        for (const auto* messages : {&round.sends, &round.forwards, &round.receives})
          for (const Message& m : *messages) EXPECT_LE(m.bytes, reshard_.options.parcel_bytes);
      }
      int64_t all = 0;
      for (const auto& [buffer, bytes] : buffers) all += bytes;
      EXPECT_EQ(plan.staging_bytes, all);
    }
  }

  // The busiest rank of each round, from what the ranks themselves will do.
  void expect_rounds_counted() {
    const Traffic traffic = traffic_of(reshard_);
    int64_t inside = 0, across = 0;
    for (int index = 0; index < traffic.num_rounds; ++index) {
      int64_t most[2] = {};
      for (int rank = 0; rank < size_; ++rank) {
        int64_t sent[2] = {}, received[2] = {};
        const auto away = [&](const Message& m) {
          return reshard_.node_of[m.peer] != reshard_.node_of[rank];
        };
        for (const Round& round : plans_[rank].rounds) {
          if (round.index != index) continue;
          for (const Message& m : round.sends) sent[away(m)] += m.bytes;
          for (const Message& m : round.forwards) sent[away(m)] += m.bytes;
          for (const Message& m : round.receives) received[away(m)] += m.bytes;
        }
        for (const int side : {0, 1}) most[side] = std::max({most[side], sent[side], received[side]});
      }
      inside += most[0];
      across += most[1];
    }
    EXPECT_EQ(traffic.inside_by_rounds, inside);
    EXPECT_EQ(traffic.across_by_rounds, across);
  }

  void expect_all() {
    run();
    expect_every_element_right();
    expect_nothing_received_twice();
    expect_traffic_at_the_bound();
    expect_memory_bounded();
    expect_rounds_counted();
  }

  const RankPlan& plan(int rank) const { return plans_[rank]; }

 private:
  // The destination's own memory of a shared matrix is not used: its elements must lie at the source in
  // order.
  void take_out(int rank, const Shared& shared, Blocks& expected) {
    int64_t base = 0, end = 0;
    const auto& tensors = reshard_.tensors;
    for (int i = 0; i < shared.first; ++i) base += oracle::numel(tensors[i]);
    end = base;
    for (int i = shared.first; i < shared.last; ++i) end += oracle::numel(tensors[i]);
    int64_t source = shared.offset;
    for (int64_t& wanted : expected[shared.block])
      if (wanted >= base && wanted < end) {
        ASSERT_EQ(held_[rank][shared.block].at(source++), wanted);
        wanted = -1;
      }
  }

  const Reshard& reshard_;
  int size_;
  std::vector<std::vector<std::vector<int64_t>>> held_, wanted_;
  std::vector<RankPlan> plans_;
  std::vector<RoleMemory> from_, to_;
};

}  // namespace trireme::tensors
