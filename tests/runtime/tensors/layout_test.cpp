#include "runtime/tensors/layout.h"

#include <gtest/gtest.h>

#include "tests/runtime/tensors/random_layouts.h"
#include "tests/runtime/tensors/reshard_oracle.h"

namespace trireme::tensors {
namespace {

std::vector<int64_t> sizes(const TensorSpec& tensor, const Split& split, int tp) {
  std::vector<int64_t> all;
  for (int t = 0; t < tp; ++t) all.push_back(slice_of(tensor, split, tp, t).extent(split.dim));
  return all;
}

bool says(const Mistakes& mistakes, const std::string& part) {
  return std::any_of(mistakes.lines().begin(), mistakes.lines().end(),
                     [&](const std::string& line) { return line.find(part) != std::string::npos; });
}

TEST(Layout, UnevenUnitsGoToTheFirstRanks) {
  const TensorSpec vocabulary{"embed", {7, 2}};
  EXPECT_EQ(sizes(vocabulary, {0, 1, Fit::uneven}, 4), (std::vector<int64_t>{2, 2, 2, 1}));
  EXPECT_EQ(sizes(vocabulary, {0, 2, Fit::uneven}, 3),
            (std::vector<int64_t>{4, 2, 1}));  // the last unit is short
  EXPECT_EQ(sizes(vocabulary, {0, 4, Fit::uneven}, 4), (std::vector<int64_t>{4, 3, 0, 0}));
}

TEST(Layout, KvHeadsAreRepeatedByNeighbours) {
  const TensorSpec k{"k", {4, 3}};  // 2 heads of 2 rows
  const Split split{0, 2, Fit::repeat};
  for (int t = 0; t < 4; ++t) EXPECT_EQ(slice_of(k, split, 4, t).begin[0], t / 2 * 2);
  EXPECT_EQ(sizes(k, split, 4), (std::vector<int64_t>{2, 2, 2, 2}));
  EXPECT_EQ(sizes(k, split, 2), (std::vector<int64_t>{2, 2}));
}

TEST(Layout, AnOwnerAloneHoldsItsTensor) {
  const std::vector<TensorSpec> tensors{{"a", {3, 2}, 0}, {"b", {5}, 0}, {"c", {2}, 0}};
  const Layout layout{"files", {.tp = 2, .ranks = {4, 6}}, {{.owner = 1}, {.owner = 0}, {.owner = 1}}};
  ASSERT_TRUE(check(tensors, layout, 8).empty());
  const ShardMap map(tensors, layout);
  EXPECT_EQ(map.stored(0, 0), 5);
  EXPECT_EQ(map.stored(1, 0), 8);
  EXPECT_EQ(map.held(0, 0, 0).numel(), 0);
  EXPECT_EQ(map.held(0, 1, 0).numel(), 6);
  EXPECT_EQ(map.place(0, 1, 2, map.slice(1, 2)).offset, 6);
}

// Which elements a rank stores, and where, against the slow way.
TEST(Layout, StoresWhatTheOracleStores) {
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(seed);
    RandomLayouts random(seed);
    const auto tensors = random.tensors();
    const int num_ranks = 1 + static_cast<int>(random.below(9));
    const Layout layout = random.layout(tensors, num_ranks, "role");
    const Mistakes mistakes = check(tensors, layout, num_ranks);
    ASSERT_TRUE(mistakes.empty()) << mistakes.lines()[0];
    const ShardMap map(tensors, layout);
    std::vector<bool> has_role(num_ranks);
    for (const auto& [rank, place] : oracle::places(layout)) {
      const auto [d, p, t] = place;
      has_role[rank] = true;
      ASSERT_TRUE(map.find(rank));
      EXPECT_EQ(map.find(rank)->d, d);
      EXPECT_EQ(map.find(rank)->p, p);
      EXPECT_EQ(map.find(rank)->t, t);
      EXPECT_EQ(map.rank({d, p, t}), rank);
      auto expected = oracle::memory(tensors, layout, d, p, t);
      for (int block = 0; block < map.num_blocks(); ++block)
        ASSERT_EQ(map.holds(p, block) ? map.stored(t, block) : 0,
                  static_cast<int64_t>(expected[block].size()));
      int64_t base = 0;
      for (int i = 0; i < static_cast<int>(tensors.size()); base += oracle::numel(tensors[i++])) {
        if (!map.holds(p, tensors[i].block)) continue;
        const Interval held = map.held(d, t, i);
        std::vector<Box> boxes;
        append_interval(map.slice(t, i), held.begin, held.end, boxes);
        for (const Box& box : boxes) {
          Runs memory(map.place(d, t, i, box));
          ASSERT_EQ(map.place(d, t, i, box).numel(), box.numel());
          int64_t at = 0;
          for (Runs runs(strided(box, whole(tensors[i].dims))); !runs.done(); runs.next())
            for (int64_t e = 0; e < runs.length(); ++e) {
              int64_t& stored = expected[tensors[i].block].at(memory.offset() + at);
              ASSERT_EQ(stored, base + runs.offset() + e);
              stored = -1;  // found
              if (++at == memory.length()) memory.next(), at = 0;
            }
        }
      }
      for (const auto& block : expected)
        for (const int64_t element : block) ASSERT_EQ(element, -1) << "an element that no tensor has there";
    }
    for (int rank = 0; rank < num_ranks; ++rank) EXPECT_EQ(map.find(rank).has_value(), has_role[rank]);
  }
}

TEST(Layout, FusedTensorsLieSideBySideAndMatricesAreAligned) {
  const std::vector<TensorSpec> tensors{
      {"q", {4, 3}, 0}, {"k", {2, 3}, 0, true}, {"o", {3, 4}, 0}, {"next", {5}, 1}};
  Layout layout{
      "role", {.dp = 2, .tp = 2, .ranks = {0, 1, 2, 3}}, {{0}, {0}, {1}, {}}, comm::DType::bf16, false, 8};
  const ShardMap whole_lines(tensors, layout);
  EXPECT_EQ(whole_lines.place(0, 0, 1, whole_lines.slice(0, 1)).offset, 6);   // behind q's 2 x 3
  EXPECT_EQ(whole_lines.place(0, 0, 2, whole_lines.slice(0, 2)).offset, 16);  // 6 + 3, rounded up
  EXPECT_EQ(whole_lines.stored(0, 0), 24);                                    // 16 + 6, rounded up
  layout.zero = true;
  const ShardMap cut(tensors, layout);
  EXPECT_EQ(cut.stored(0, 0), 16);  // 22 in two, rounded up
  EXPECT_EQ(cut.held(0, 0, 2).numel(), 0);
  EXPECT_EQ(cut.held(1, 0, 2).numel(), 6);
  EXPECT_EQ(cut.held(1, 1, 3).numel(), 0);  // 5 fit into the first cut of 8
}

TEST(Layout, TensorsAreFoundByTiedNames) {
  const std::vector<TensorSpec> tensors{{"norm", {2}, 0}, {"embed", {7, 2}, 1, false, {"lm_head"}}};
  EXPECT_EQ(find_tensor(tensors, "lm_head"), 1);
  EXPECT_EQ(find_tensor(tensors, "embed"), 1);
  EXPECT_FALSE(find_tensor(tensors, "head"));
}

TEST(LayoutCheck, RefusesTpThatDoesNotDivideAndSaysWhatWould) {
  const std::vector<TensorSpec> tensors{{"q", {24, 4}}, {"k", {8, 4}, 0, true}};
  const std::vector<Split> splits{{0, 2}, {0, 2, Fit::repeat}};  // 12 heads, 4 kv heads
  EXPECT_EQ(tp_sizes_that_fit(tensors, splits, 24), (std::vector<int>{1, 2, 4, 12}));
  EXPECT_EQ(tp_sizes_that_fit(tensors, splits, 30), (std::vector<int>{1, 2}));
  Layout layout{"rollout", {.dp = 4, .tp = 6}, splits};
  for (int rank = 0; rank < 24; ++rank) layout.mesh.ranks.push_back(rank);
  const Mistakes mistakes = check(tensors, layout, 24);
  ASSERT_EQ(mistakes.lines().size(), 1u) << "q: 12 heads in 6 are fine";
  EXPECT_TRUE(says(mistakes,
                   "k: rollout: tp = 6 does not divide, and is no multiple of, its 4 units of 2; on 24 "
                   "ranks these tp sizes fit all tensors: 1, 2, 4, 12"));
  layout.mesh.tp = 5;
  EXPECT_TRUE(says(check(tensors, layout, 24),
                   "dp 4 x tp 5 needs 20 ranks, and 24 are placed; pp x cp x tp must divide"));
  layout.mesh.tp = 4;
  EXPECT_TRUE(says(check(tensors, layout, 24), "with this replica, dp is 6"));
  layout.mesh.dp = 6;
  EXPECT_TRUE(check(tensors, layout, 24).empty());
}

TEST(LayoutCheck, EveryBlockIsOnAStage) {
  const std::vector<TensorSpec> tensors{{"a", {4}, 0}, {"b", {4}, 1}, {"c", {4}, 2}};
  Layout layout{"actor", {.pp = 2, .ranks = {0, 1}}, {{}, {}, {}}};
  EXPECT_TRUE(says(check(tensors, layout, 2), "actor: says what 0 stages hold, and pp = 2"));
  layout.blocks_of_stages = {{0, 1}, {0, 2}};
  EXPECT_TRUE(check(tensors, layout, 2).empty()) << "two stages may hold one block";
  layout.blocks_of_stages = {{1, 0}, {3}};
  const Mistakes mistakes = check(tensors, layout, 2);
  EXPECT_TRUE(says(mistakes, "actor: the blocks of stage 0 do not ascend: 1, 0"));
  EXPECT_TRUE(says(mistakes, "actor: a stage holds block 3; there are 3"));
  EXPECT_TRUE(says(mistakes, "actor: no stage holds block 2"));
  layout.mesh.ranks.push_back(2);
  EXPECT_TRUE(says(check(tensors, layout, 3), "dp 1 x pp 2 x tp 1 needs 2 ranks, and 3 are placed"));
}

TEST(LayoutCheck, AnOwnerIsATpRankOfAWholeTensor) {
  const std::vector<TensorSpec> tensors{{"a", {4}, 0}, {"b", {4}, 0}, {"c", {4}, 0}};
  const Layout layout{
      "files", {.tp = 2, .ranks = {0, 1}}, {{.owner = 2}, {.dim = 0, .owner = 1}, {.owner = -2}}};
  const Mistakes mistakes = check(tensors, layout, 2);
  EXPECT_TRUE(says(mistakes, "a: files: its owner is tp rank 2, and tp = 2"));
  EXPECT_TRUE(says(mistakes, "b: files: tp rank 1 cannot own it alone; what is split has no owner"));
  EXPECT_TRUE(says(mistakes, "c: files: tp rank -2 cannot own it alone"));
  EXPECT_EQ(mistakes.lines().size(), 3u);
}

TEST(LayoutCheck, NamesEveryMistake) {
  const std::vector<TensorSpec> tensors{
      {"a", {4, 0}, 0, true}, {"a", {1, 1, 1, 1, 1}, 2}, {"c", {4}, 2, false, {"a"}}, {"d", {6}, 2}};
  Layout layout{"actor", {.tp = 3, .ranks = {0, 0, 7}}, {{}, {5}, {0, 3}, {0, 2}}};
  layout.alignment = 0;
  const Mistakes mistakes = check(tensors, layout, 4);
  for (const char* part :
       {"a: two tensors have this name", "a: has a dim of 0", "a: joins the tensor before it",
        "a: has 5 dims, 4", "a: is in block 2 behind block 0", "actor: rank 0 is placed twice",
        "actor: rank 7 does not exist", "actor: an alignment of 0",
        "a: of dims [1, 1, 1, 1, 1] cannot be split along dim 5",
        "c: of dims [4] cannot be split along dim 0 in units of 3"})
    EXPECT_TRUE(says(mistakes, part)) << part << "\nnot in:\n"
                                      << fmt::format("{}", fmt::join(mistakes.lines(), "\n"));
  EXPECT_EQ(mistakes.lines().size(), 11u) << "and a is there three times";
  layout.splits.pop_back();
  EXPECT_TRUE(says(check(tensors, layout, 4), "has 3 splits for 4 tensors"));
  layout.mesh = {.dp = 0};
  EXPECT_TRUE(says(check(tensors, layout, 4), "dp 0 x tp 1: each axis must be at least 1"));
}

}  // namespace
}  // namespace trireme::tensors
