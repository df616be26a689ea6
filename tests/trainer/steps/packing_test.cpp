#include "trainer/steps/packing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "runtime/base/error.h"

namespace trireme::steps {
namespace {

// What each pair must say, found by walking every sample alone.
std::vector<std::pair<std::vector<int32_t>, int32_t>> expected_pairs(const std::vector<Group>& groups) {
  std::vector<std::pair<std::vector<int32_t>, int32_t>> pairs;  // (history, token it is followed by)
  for (const Group& group : groups)
    for (const Sample& sample : group.samples) {
      std::vector<int32_t> history = group.prompt;
      for (const int32_t token : sample.tokens) {
        pairs.emplace_back(history, token);
        history.push_back(token);
      }
    }
  return pairs;
}

// The history that a row of a batch sees, read through its segment's spans.
std::vector<int32_t> history_of(const models::ForwardBatch& batch, int32_t row) {
  for (const models::Segment& segment : batch.segments)
    if (row >= segment.row && row < segment.row + segment.length) {
      std::vector<int32_t> tokens;
      for (const models::SlotSpan& span : segment.spans)
        for (int32_t i = 0; i < span.length; ++i)
          tokens.push_back(batch.tokens[static_cast<size_t>(span.slot + i)]);
      tokens.resize(static_cast<size_t>(segment.position + row - segment.row + 1));
      return tokens;
    }
  return {};
}

std::vector<Group> random_groups(uint64_t seed) {
  auto next = [state = seed * 2654435761ULL + 1]() mutable {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<int32_t>(state >> 40);
  };
  std::vector<Group> groups(1 + next() % 5);
  for (Group& group : groups) {
    group.prompt.resize(1 + static_cast<size_t>(next() % 12));
    for (int32_t& token : group.prompt) token = next() % 50;
    group.samples.resize(1 + static_cast<size_t>(next() % 4));
    for (Sample& sample : group.samples) {
      sample.tokens.resize(static_cast<size_t>(next() % 9));  // none at all, now and then
      for (int32_t& token : sample.tokens) token = next() % 50;
    }
  }
  return groups;
}

TEST(Packing, EveryTokenIsJudgedOnceByTheRowOfItsOwnHistory) {
  for (uint64_t seed = 0; seed < 300; ++seed)
    for (const int64_t max_rows : {1, 8, 25, 1000}) {
      std::vector<Group> groups = random_groups(seed);
      const auto expected = expected_pairs(groups);
      size_t pair = 0;
      for (const MicroBatch& micro : pack_groups(groups, max_rows)) {
        ASSERT_EQ(micro.rows.size(), micro.tokens.size());
        int32_t row = 0;
        for (const models::Segment& segment : micro.batch.segments) {
          ASSERT_EQ(segment.row, row);  // disjoint, in order, covering
          ASSERT_GT(segment.length, 0);
          row += segment.length;
        }
        ASSERT_EQ(row, micro.batch.num_rows());
        if (micro.samples.size() > 1) {
          ASSERT_LE(micro.batch.num_rows(), max_rows);
        }
        for (size_t i = 0; i < micro.rows.size(); ++i, ++pair) {
          ASSERT_LT(pair, expected.size());
          ASSERT_EQ(history_of(micro.batch, micro.rows[i]), expected[pair].first);
          ASSERT_EQ(micro.tokens[i], expected[pair].second);
        }
      }
      ASSERT_EQ(pair, expected.size());
    }
}

TEST(Packing, ComputesASharedPromptOnceWhereItFits) {
  std::vector<Group> groups(1);
  groups[0].prompt = {1, 2, 3, 4};
  groups[0].samples.resize(3);
  for (Sample& sample : groups[0].samples) sample.tokens = {5, 6, 7};
  EXPECT_EQ(pack_groups(groups, 100)[0].batch.num_rows(), groups[0].num_rows());
  EXPECT_EQ(groups[0].num_rows(), 4 + 3 * 2);
  EXPECT_EQ(pack_groups(groups, 8).size(), 2u);  // two samples, then one with the prompt again
}

TEST(Packing, WholeGroupsStayTogetherHoweverLongTheyAre) {
  for (uint64_t seed = 0; seed < 100; ++seed)
    for (const int64_t max_rows : {1, 40, 1000}) {
      std::vector<Group> groups = random_groups(seed);
      std::erase_if(groups, [](const Group& group) {
        return std::ranges::all_of(group.samples, [](const Sample& sample) { return sample.tokens.empty(); });
      });
      size_t next = 0;
      for (const MicroBatch& micro : pack_whole_groups(groups, max_rows)) {
        const size_t first = next;
        for (size_t samples = 0; samples < micro.samples.size(); ++next)
          for (const Sample& sample : groups[next].samples) samples += sample.tokens.empty() ? 0 : 1;
        if (next > first + 1) {
          ASSERT_LE(micro.batch.num_rows(), max_rows);
        }
      }
      ASSERT_EQ(next, groups.size());
    }
}

TEST(Packing, SlotsAreRowsAndPositionsContinueThePrompt) {
  const std::vector<Example> examples{{{{1, 2, 3, 4, 5}, {0, 0, 1, 1, 1}}}, {{{6, 7}, {0, 1}}}};
  const auto micro = pack_examples(examples, 100);
  ASSERT_EQ(micro.size(), 1u);
  EXPECT_EQ(micro[0].batch.positions, (std::vector<int32_t>{0, 1, 2, 3, 0}));
  EXPECT_EQ(micro[0].batch.slots, (std::vector<int32_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(micro[0].rows, (std::vector<int32_t>{1, 2, 3, 4}));
  EXPECT_EQ(micro[0].tokens, (std::vector<int32_t>{3, 4, 5, 7}));
}

TEST(Packing, ExamplesAreJudgedWhereTheyAreLearnedAndSeeNothingOfEachOther) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    std::vector<Example> examples(1 + random() % 6);
    std::vector<std::pair<std::vector<int32_t>, int32_t>> expected;
    for (Example& example : examples) {
      data::MaskedTokens& tokens = example.tokens;
      for (size_t i = 0, length = 1 + random() % 9; i < length; ++i) {
        const auto id = static_cast<int32_t>(random() % 50);
        if (const bool learned = random() % 2; tokens.mask.emplace_back(learned), learned && i > 0)
          expected.emplace_back(tokens.ids, id);
        tokens.ids.push_back(id);
      }
    }
    size_t pair = 0;
    for (const MicroBatch& micro : pack_examples(examples, 1 + random() % 20))
      for (size_t i = 0; i < micro.rows.size(); ++i, ++pair) {
        ASSERT_LT(pair, expected.size());
        ASSERT_EQ(history_of(micro.batch, micro.rows[i]), expected[pair].first);
        ASSERT_EQ(micro.tokens[i], expected[pair].second);
      }
    ASSERT_EQ(pair, expected.size());
  }
}

TEST(Group, ComesBackFromItsBytesAsItWas) {
  Group group;
  group.id = 7;
  group.problem = 123;
  group.prompt = {1, 2, 3};
  group.samples.resize(2);
  group.samples[0].tokens = {4, 5};
  group.samples[0].rollout_log_probs = {-0.5f, -1.5f};
  group.samples[0].ref_log_probs = {-0.25f, -2.0f};
  group.samples[0].score = 1.0;
  group.samples[0].correct = true;
  group.samples[1].stopped = true;
  const std::string bytes = pack(group);
  const Group back = unpack(bytes);
  EXPECT_EQ(pack(back), bytes);
  EXPECT_EQ(back.samples[0].ref_log_probs, group.samples[0].ref_log_probs);
  EXPECT_TRUE(back.samples[0].correct);
  EXPECT_TRUE(back.samples[1].stopped);
  for (size_t cut = 0; cut < bytes.size(); ++cut) EXPECT_THROW(unpack(bytes.substr(0, cut)), Error);
  EXPECT_THROW(unpack(bytes + "x"), Error);
  const std::vector<Group> two = unpack_all(bytes + pack(Group{.id = 9}));
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(pack(two[0]), bytes);
  EXPECT_EQ(two[1].id, 9);
  EXPECT_TRUE(unpack_all("").empty());
  EXPECT_THROW(unpack_all(bytes + "x"), Error);
}

TEST(Packing, SharedPassesHaveRoomForAllRanksAndTheSamePairs) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    std::vector<Group> groups = random_groups(seed);
    const int ranks = 2 + static_cast<int>(seed % 3);
    const auto pairs_of = [](const std::vector<MicroBatch>& micros) {
      std::vector<std::pair<std::vector<int32_t>, int32_t>> pairs;
      for (const MicroBatch& micro : micros)
        for (size_t i = 0; i < micro.rows.size(); ++i)
          pairs.emplace_back(history_of(micro.batch, micro.rows[i]), micro.tokens[i]);
      return pairs;
    };
    const auto shared = pack_groups(groups, {20, ranks}), alone = pack_groups(groups, 20 * ranks);
    ASSERT_EQ(shared.size(), alone.size());
    for (size_t i = 0; i < alone.size(); ++i)
      EXPECT_EQ(shared[i].batch.num_rows(), alone[i].batch.num_rows());
    EXPECT_EQ(pairs_of(shared), expected_pairs(groups));
  }
}

}  // namespace
}  // namespace trireme::steps
