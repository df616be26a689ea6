// How rows and keys are shared out over ranks, for random batches.
#include "trainer/models/context_split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "trainer/models/cpu_kernels.h"

namespace trireme::models {
namespace {

// Groups of a prompt and the responses that share it; a token names its row.
ForwardBatch random_batch(std::mt19937& random, int groups, int longest) {
  ForwardBatch batch;
  const auto add = [&](int32_t length, int32_t position, std::vector<SlotSpan> before) {
    const auto row = static_cast<int32_t>(batch.tokens.size());
    before.push_back({row, length});
    batch.segments.push_back({row, length, position, std::move(before)});
    for (int32_t i = 0; i < length; ++i) {
      batch.tokens.push_back(row + i);
      batch.positions.push_back(position + i);
      batch.slots.push_back(row + i);
    }
    return SlotSpan{row, length};
  };
  const auto draw = [&] { return static_cast<int32_t>(1 + random() % static_cast<unsigned>(longest)); };
  for (int g = 0; g < groups; ++g) {
    const SlotSpan prompt = add(draw(), 0, {});
    for (unsigned r = random() % 4; r > 0; --r) add(draw(), prompt.length, {prompt});
  }
  return batch;
}

// The tokens that each row sees, by the row's own token.
std::map<int32_t, std::vector<int32_t>> histories(const ForwardBatch& batch) {
  std::map<int32_t, std::vector<int32_t>> result;
  for (const Segment& segment : batch.segments)
    for (int32_t i = 0; i < segment.length; ++i) {
      auto& seen = result[batch.tokens[static_cast<size_t>(segment.row + i)]];
      for (const SlotSpan& span : segment.spans)
        for (int32_t k = 0; k < span.length && std::ssize(seen) <= segment.position + i; ++k)
          seen.push_back(batch.tokens[static_cast<size_t>(span.slot + k)]);
    }
  return result;
}

TEST(DealRows, KeepsEveryRowsHistory) {
  std::mt19937 random(1);
  for (int round = 0; round < 60; ++round) {
    const ForwardBatch before = random_batch(random, 1 + round % 5, round % 2 ? 9 : 200);
    const int ranks = 1 + round % 9;
    ForwardBatch batch = before;
    const std::vector<int32_t> place = deal_rows(batch, ranks);
    ASSERT_EQ(place.size(), before.tokens.size());
    for (size_t r = 0; r < place.size(); ++r) {
      const auto to = static_cast<size_t>(place[r]);
      ASSERT_EQ(batch.tokens[to], before.tokens[r]);
      ASSERT_EQ(batch.positions[to], before.positions[r]);
      ASSERT_EQ(batch.slots[to], place[r]);
    }
    EXPECT_EQ(histories(batch), histories(before));
    int32_t row = 0;
    for (const Segment& segment : batch.segments) {  // disjoint, in order, all rows
      ASSERT_EQ(segment.row, row);
      for (int32_t i = 0; i < segment.length; ++i)
        ASSERT_EQ(batch.positions[static_cast<size_t>(row + i)], segment.position + i);
      row += segment.length;
    }
    ASSERT_EQ(row, batch.num_rows());
  }
}

TEST(DealRows, GivesRanksTheSameWork) {
  std::mt19937 random(2);
  for (int round = 0; round < 60; ++round) {
    ForwardBatch batch = random_batch(random, 3, 2000);
    const ForwardBatch before = batch;
    const int ranks = 2 + round % 7;
    const std::vector<int32_t> place = deal_rows(batch, ranks);
    const std::vector<int64_t> shares = rows_of_ranks(batch.num_rows(), ranks);
    std::vector<int> rank_of;
    for (int r = 0; r < ranks; ++r) rank_of.insert(rank_of.end(), static_cast<size_t>(shares[r]), r);
    // Attention: a row costs as many keys as it sees.
    std::vector<double> keys(static_cast<size_t>(ranks));
    for (size_t r = 0; r < rank_of.size(); ++r)
      keys[static_cast<size_t>(rank_of[r])] += 1 + batch.positions[r];
    const auto [least, most] = std::ranges::minmax(keys);
    EXPECT_LT(most, least * 1.02 + 2000 * 8);
    // Rows, of every segment alike: so what only some rows cost, such as logits, is shared out too.
    for (const Segment& segment : before.segments) {
      std::vector<int> rows(static_cast<size_t>(ranks));
      for (int32_t i = 0; i < segment.length; ++i)
        ++rows[static_cast<size_t>(
            rank_of[static_cast<size_t>(place[static_cast<size_t>(segment.row + i)])])];
      const auto [fewest, many] = std::ranges::minmax(rows);
      EXPECT_LE(many - fewest, 1);
    }
  }
}

TEST(RowsOfRanks, DifferByOneAtMostAndTheFirstHaveMore) {
  EXPECT_EQ(rows_of_ranks(11, 4), (std::vector<int64_t>{3, 3, 3, 2}));
  EXPECT_EQ(rows_of_ranks(2, 3), (std::vector<int64_t>{1, 1, 0}));
}

TEST(KeyWindows, BringEveryRowAllOfItsKeysOnceInOrder) {
  std::mt19937 random(3);
  for (int round = 0; round < 80; ++round) {
    ForwardBatch batch = random_batch(random, 1 + round % 4, round % 3 ? 400 : 20);
    const int ranks = 1 + round % 6;
    if (round % 2) deal_rows(batch, ranks);  // any order will do
    const auto expected = histories(batch);
    const std::vector<int64_t> shares = rows_of_ranks(batch.num_rows(), ranks);
    const int64_t most_rows = 1 + round * 7;
    std::vector<std::vector<KeyWindow>> of_rank;
    for (int r = 0; r < ranks; ++r) of_rank.push_back(key_windows(batch, ranks, r, most_rows));
    std::map<int32_t, std::vector<int32_t>> seen;
    for (size_t w = 0; w < of_rank[0].size(); ++w) {
      const KeyWindow& window = of_rank[0][w];
      EXPECT_EQ(window.begin % kKeyBlock, 0);
      EXPECT_EQ(window.end % kKeyBlock, 0);
      EXPECT_EQ(window.begin, w == 0 ? 0 : of_rank[0][w - 1].end);
      std::vector<int32_t> slots;  // the tokens that arrive
      int64_t first = 0;
      for (int r = 0; r < ranks; ++r) {
        const KeyWindow& sender = of_rank[static_cast<size_t>(r)][w];
        ASSERT_EQ(sender.counts, window.counts);
        ASSERT_EQ(std::ssize(sender.sent), window.counts[static_cast<size_t>(r)]);
        for (const int64_t row : sender.sent) slots.push_back(batch.tokens[static_cast<size_t>(first + row)]);
        first += shares[static_cast<size_t>(r)];
      }
      EXPECT_TRUE(std::ssize(slots) <= most_rows || window.end == window.begin + kKeyBlock);
      first = 0;
      for (int r = 0; r < ranks; ++r) {
        for (const Segment& segment : of_rank[static_cast<size_t>(r)][w].segments) {
          int32_t there = 0;
          for (const SlotSpan& span : segment.spans) there += span.length;
          EXPECT_EQ(there, std::min(window.end, segment.position + segment.length) - window.begin);
          for (int32_t i = 0; i < segment.length; ++i) {
            auto& keys = seen[batch.tokens[static_cast<size_t>(first + segment.row + i)]];
            for (const SlotSpan& span : segment.spans)
              for (int32_t k = 0; k < span.length && std::ssize(keys) <= segment.position + i; ++k)
                keys.push_back(slots[static_cast<size_t>(span.slot + k)]);
          }
        }
        first += shares[static_cast<size_t>(r)];
      }
    }
    EXPECT_EQ(seen, expected);
  }
}

}  // namespace
}  // namespace trireme::models
