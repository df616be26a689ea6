#include "runtime/tensors/reshard_plan.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/runtime/tensors/numbered_world.h"
#include "tests/runtime/tensors/random_layouts.h"

namespace trireme::tensors {
namespace {

Layout on(std::vector<int> ranks, int tp, std::vector<Split> splits, bool zero = false) {
  Layout layout;
  layout.role = "role";
  layout.mesh = Mesh::of(std::move(ranks), {.tp = tp});
  layout.splits = std::move(splits);
  layout.dtype = comm::DType::i32;
  layout.zero = zero;
  return layout;
}

TEST(ReshardPlan, BringsEveryElementOnceForThousandsOfRandomLayouts) {
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    SCOPED_TRACE(seed);
    RandomLayouts random(seed);
    const auto tensors = random.tensors();
    const int num_ranks = 1 + static_cast<int>(random.below(9));
    const Layout from = random.layout(tensors, num_ranks, "actor"),
                 to = random.layout(tensors, num_ranks, "rollout");
    const Reshard reshard{tensors, from, to, random.nodes(num_ranks), random.options()};
    const Mistakes mistakes = check(reshard);
    ASSERT_TRUE(mistakes.empty()) << mistakes.lines()[0];
    NumberedWorld(reshard).expect_all();
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

// q: 4 heads of 2 rows, k and v: 2 heads; o splits its columns; the norm is everybody's.
std::vector<TensorSpec> attention() {
  return {
      {"q", {8, 3}, 0}, {"k", {4, 3}, 0, true}, {"v", {4, 3}, 0, true}, {"o", {3, 8}, 0}, {"norm", {3}, 0}};
}
std::vector<Split> heads() {
  return {{0, 2}, {0, 2, Fit::repeat}, {0, 2, Fit::repeat}, {1, 2}, {}};
}

TEST(ReshardPlan, SplitsFusedQkvAcrossTwoRanks) {
  const auto tensors = attention();
  const Layout from = on({0}, 1, heads()), to = on({0, 1}, 2, heads());
  const Reshard reshard{tensors, from, to, {0, 0}};
  NumberedWorld world(reshard);
  world.expect_all();
  // Rank 0 copies its half on the spot, where q, k and v lie closer together than before; only the norm is
  // alike.
  ASSERT_EQ(world.plan(0).shared.size(), 1u);
  EXPECT_EQ(world.plan(0).shared[0].first, 4);
  EXPECT_EQ(world.plan(0).shared[0].offset, 72);
  EXPECT_EQ(world.plan(0).copies.size(), 4u);
  EXPECT_TRUE(world.plan(0).rounds[0].receives.empty());
}

TEST(ReshardPlan, RepeatsKvHeadsWhereTpIsLarger) {
  const auto tensors = attention();
  const Layout from = on({0, 1}, 2, heads()), to = on({0, 1, 2, 3}, 4, heads());
  const Reshard reshard{tensors, from, to, {0, 0, 1, 1}};
  NumberedWorld world(reshard);
  world.expect_all();
  // k head 1 is wanted by ranks 2 and 3, on another node: it crosses once, as every element of that node
  // does.
  EXPECT_EQ(traffic_of(reshard).crossed, oracle::bounds(reshard).crossed * 4);
}

TEST(ReshardPlan, SharesWhatIsAlikeAndMovesNothing) {
  const auto tensors = attention();
  const Layout from = on({0, 1, 2, 3}, 2, heads()), to = on({2, 3, 0, 1}, 2, heads());
  Reshard reshard{tensors, from, to, {0, 0, 1, 1}};
  NumberedWorld world(reshard);
  world.expect_all();
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(world.plan(rank).shared.size(), 3u) << "qkv, o, norm";
    EXPECT_TRUE(world.plan(rank).copies.empty());
    EXPECT_TRUE(world.plan(rank).rounds.empty());
  }
  EXPECT_EQ(traffic_of(reshard).num_rounds, 0);

  reshard.options.share = false;  // the source goes on changing: the same bytes, copied
  NumberedWorld apart(reshard);
  apart.expect_all();
  EXPECT_TRUE(apart.plan(0).shared.empty());
  EXPECT_EQ(apart.plan(0).copies.size(), 5u);
}

TEST(ReshardPlan, AFusedMatrixIsSharedAsAWholeOrNotAtAll) {
  const auto tensors = attention();
  auto other = heads();
  other[1] = {0, 1};  // k by single rows: the same slices for tp = 2
  const Layout from = on({0, 1}, 2, heads()), to = on({0, 1}, 2, other);
  const Reshard same{tensors, from, to, {0, 0}};
  EXPECT_EQ(plan_for(same, 0).shared.size(), 3u);
  other[1] = {};  // k whole: q and v alone would be alike
  const Layout whole_k = on({0, 1}, 2, other);
  const Reshard differs{tensors, from, whole_k, {0, 0}};
  NumberedWorld world(differs);
  world.expect_all();
  ASSERT_EQ(world.plan(0).shared.size(), 2u);
  EXPECT_EQ(world.plan(0).shared[0].first, 3);
  EXPECT_EQ(world.plan(0).copies.size(), 3u);
}

TEST(ReshardPlan, AVocabularyOfSevenOnFourRanks) {
  const std::vector<TensorSpec> tensors{{"embed", {7, 2}, 0, false, {"lm_head"}}, {"norm", {2}, 0}};
  const std::vector<Split> splits{{0, 1, Fit::uneven}, {}};
  const Layout four = on({0, 1, 2, 3}, 4, splits), three = on({3, 1, 0}, 3, splits), one = on({2}, 1, splits);
  const std::vector<int> nodes{0, 0, 1, 1};
  for (const Layout* from : {&four, &three, &one})
    for (const Layout* to : {&four, &three, &one}) {
      const Reshard reshard{tensors, *from, *to, nodes};
      NumberedWorld(reshard).expect_all();
    }
  // Tied embeddings are one tensor: 7 x 2 elements in all, and the norm on each rank.
  const Reshard reshard{tensors, one, four, nodes};
  EXPECT_EQ(traffic_of(reshard).moved + traffic_of(reshard).kept[2], 4 * (14 + 4 * 2));
}

TEST(ReshardPlan, MoreRanksThanUnitsLeavesSomeEmpty) {
  const std::vector<TensorSpec> tensors{{"a", {2, 3}, 0}};
  const Layout from = on({0, 1, 2, 3}, 4, {{0, 1, Fit::uneven}}), to = on({3, 2, 1, 0}, 1, {{}}, true);
  const Reshard reshard{tensors, from, to, {0, 1, 2, 3}};
  NumberedWorld world(reshard);
  world.expect_all();
}

TEST(ReshardPlan, RanksWithoutARoleAreEmpty) {
  const auto tensors = attention();
  const Layout from = on({1}, 1, heads()), to = on({3}, 1, heads());
  const Reshard reshard{tensors, from, to, {0, 0, 1, 1}};
  NumberedWorld world(reshard);
  world.expect_all();
  EXPECT_TRUE(world.plan(0).rounds.empty());
  EXPECT_EQ(world.plan(0).staging_bytes, 0);
  EXPECT_FALSE(world.plan(1).rounds.empty());
}

// One node has it, seven want it: whoever got it passes it on, so no link carries the model seven times.
TEST(ReshardPlan, RelaysTakeTheLoadOffTheSenders) {
  const std::vector<TensorSpec> tensors{{"a", {64, 16}, 0}};
  const Layout from = on({0, 1}, 2, {{0}}),
               to = on({2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, 1, {{}});
  std::vector<int> nodes(16);
  for (int rank = 0; rank < 16; ++rank) nodes[rank] = rank / 2;
  Reshard reshard{tensors, from, to, nodes};
  reshard.options.parcel_bytes = 64;
  reshard.options.staging_bytes = 4 * 256;
  const int64_t model = 64 * 16 * 4;
  const Traffic direct = traffic_of(reshard);
  EXPECT_EQ(direct.largest_across, 7 * model / 2);
  EXPECT_EQ(direct.largest_across_bound, 7 * model / 2);
  reshard.options.relays = 6;
  NumberedWorld(reshard).expect_all();
  const Traffic relayed = traffic_of(reshard);
  EXPECT_EQ(relayed.crossed, direct.crossed);
  EXPECT_LE(relayed.largest_across, model / 2 + 2 * 64) << relayed.table();
}

TEST(ReshardPlan, RelaysAreBalancedInATreeOfManyNodes) {
  const std::vector<TensorSpec> tensors{{"a", {256, 64}, 0}};
  std::vector<int> ranks(60), nodes(64);
  for (int rank = 0; rank < 64; ++rank) nodes[rank] = rank / 2;
  for (int rank = 4; rank < 64; ++rank) ranks[rank - 4] = rank;
  const Layout from = on({0, 1, 2, 3}, 1, {{}}, true), to = on(ranks, 2, {{0}});
  Reshard reshard{tensors, from, to, nodes};
  reshard.options.parcel_bytes = 128;
  reshard.options.relays = 4;
  NumberedWorld(reshard).expect_all();
  // Two children each: what a holder has crosses twice from it, and a node's ranks pass on about what they
  // got.
  const int64_t model = 256 * 64 * 4;
  EXPECT_LE(traffic_of(reshard).largest_across, model / 2 * 5 / 4) << traffic_of(reshard).table();
}

// 4 replicas of two halves feed 3 nodes of 2: nobody sends much more than the best balance.
TEST(ReshardPlan, SendersAreBalanced) {
  const std::vector<TensorSpec> tensors{{"a", {64, 16}, 0}, {"b", {16, 16}, 1}};
  const Layout from = on({0, 1, 2, 3, 4, 5, 6, 7}, 2, {{0}, {1}}),
               to = on({8, 9, 10, 11, 12, 13}, 2, {{1}, {0}});
  Reshard reshard{tensors, from, to, {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 3, 4, 4}};
  reshard.options.parcel_bytes = 32;
  const Traffic traffic = traffic_of(reshard);
  EXPECT_LE(traffic.largest_across, traffic.largest_across_bound + 2 * 32) << traffic.table();
  EXPECT_EQ(traffic.largest_inside, 0);
}

TEST(ReshardPlan, SendersInsideANodeAreBalanced) {
  const std::vector<TensorSpec> tensors{{"a", {64, 16}, 0}};
  const Layout from = on({0, 1, 2}, 1, {{}}), to = on({3, 4, 5, 6, 7}, 1, {{}});
  Reshard reshard{tensors, from, to, std::vector<int>(8)};
  reshard.options.parcel_bytes = 32;
  const Traffic traffic = traffic_of(reshard);
  EXPECT_EQ(traffic.crossed, 0);
  EXPECT_LE(traffic.largest_inside, traffic.largest_inside_bound + 32) << traffic.table();
}

// Eight cuts go to two nodes of two: rounds are full, and all holders send in each.
TEST(ReshardPlan, RoundsAreFullAndAllHoldersBusy) {
  const std::vector<TensorSpec> tensors{{"a", {4096, 256}, 0}};
  const Layout from = on({0, 1, 2, 3, 4, 5, 6, 7}, 1, {{}}, true), to = on({8, 9, 10, 11}, 1, {{}});
  Reshard reshard{tensors, from, to, {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5}};
  reshard.options.staging_bytes = 4 << 19;
  const Traffic traffic = traffic_of(reshard);
  const int64_t model = 4096 * 256 * 4;
  // A destination receives the model, half of it from afar, 512 KiB a round: 8 rounds are the least.
  EXPECT_LE(traffic.num_rounds, 8 + 2) << traffic.table();
  EXPECT_LE(traffic.across_by_rounds, model / 2 * 5 / 4) << traffic.table();
}

TEST(ReshardPlan, ConvertsOnTheWayInTheNarrowerType) {
  const auto tensors = attention();
  Layout masters = on({0, 1, 2, 3}, 2, heads(), true), compute = on({0, 1, 2, 3}, 4, heads());
  masters.dtype = comm::DType::f32;
  compute.dtype = comm::DType::bf16;
  const auto value = [](int64_t e) { return 1.0f + static_cast<float>(e) * 0x1.01p-9f; };  // rounded in bf16
  const auto rounded = [&](int64_t e) {
    const float exact = value(e);
    std::byte half[2], back[4];
    convert(reinterpret_cast<const std::byte*>(&exact), comm::DType::f32, half, comm::DType::bf16, 1);
    convert(half, comm::DType::bf16, back, comm::DType::f32, 1);
    float result;
    std::memcpy(&result, back, 4);
    return result;
  };
  for (const bool down : {true, false}) {
    const Layout &from = down ? masters : compute, &to = down ? compute : masters;
    const Reshard reshard{tensors, from, to, {0, 0, 1, 1}};
    ASSERT_TRUE(check(reshard).empty());
    EXPECT_EQ(wire_dtype(reshard), comm::DType::bf16);
    EXPECT_EQ(traffic_of(reshard).moved, 2 * oracle::bounds(reshard).moved);
    std::vector<RankPlan> plans;
    std::vector<RoleMemory> sources, targets;
    const auto held = oracle::memories(tensors, from, 4), wanted = oracle::memories(tensors, to, 4);
    for (int rank = 0; rank < 4; ++rank) {
      plans.push_back(plan_for(reshard, rank));
      EXPECT_TRUE(plans[rank].shared.empty());
      RoleMemory& source = sources.emplace_back(sizes(held[rank]), from.dtype, 0);
      targets.emplace_back(sizes(wanted[rank]), to.dtype, 0);
      for (size_t i = 0; i < held[rank][0].size(); ++i) {
        const float exact = value(held[rank][0][i]);
        convert(reinterpret_cast<const std::byte*>(&exact), comm::DType::f32,
                source.blocks[0] + i * comm::size_of(from.dtype), from.dtype, 1);
      }
    }
    std::vector<PlainRank> ranks;
    for (int rank = 0; rank < 4; ++rank)
      ranks.emplace_back(plans[rank], sources[rank].view(), targets[rank].view(), wire_dtype(reshard));
    execute(ranks, plans[0].num_rounds);
    for (int rank = 0; rank < 4; ++rank)
      for (size_t i = 0; i < wanted[rank][0].size(); ++i) {
        if (wanted[rank][0][i] == -1) continue;
        float got;
        convert(targets[rank].blocks[0] + i * comm::size_of(to.dtype), to.dtype,
                reinterpret_cast<std::byte*>(&got), comm::DType::f32, 1);
        ASSERT_EQ(got, rounded(wanted[rank][0][i])) << "rank " << rank << " element " << i;
      }
  }
}

TEST(ReshardPlan, ManyMessagesAreSpreadOverRounds) {
  const std::vector<TensorSpec> tensors{{"a", {64, 16}, 0}};
  const Layout from = on({0, 1}, 1, {{}}, true), to = on({2, 3}, 1, {{}});
  Reshard reshard{tensors, from, to, {0, 0, 1, 1}};
  reshard.options.parcel_bytes = 64;
  reshard.options.max_messages = 4;
  // 64 parcels; a destination receives 32 from afar, passes these on and is passed the others: 96 messages,
  // in no less than 24 rounds. Here two rounds take two parcels each way.
  EXPECT_EQ(traffic_of(reshard).num_rounds, 32);
  NumberedWorld world(reshard);
  world.expect_all();
  for (int rank = 0; rank < 4; ++rank)
    for (const Round& round : world.plan(rank).rounds)
      EXPECT_LE(round.sends.size() + round.forwards.size() + round.receives.size(), 4u);
}

TEST(ReshardCheck, NamesEveryMistake) {
  const auto tensors = attention();
  Layout from = on({0, 1, 2}, 3, heads()), to = on({0, 9}, 2, heads());
  to.dtype = comm::DType::bf16;
  Reshard reshard{tensors, from, to, {0, 0, 0, 0}};
  reshard.options.staging_bytes = 10;
  const auto lines = check(reshard).lines();
  const auto has = [&](const std::string& part) {
    return std::any_of(lines.begin(), lines.end(),
                       [&](const std::string& line) { return line.find(part) != std::string::npos; });
  };
  EXPECT_TRUE(
      has("q: role: tp = 3 does not divide its 4 units of 2; on 3 ranks these tp sizes fit all tensors: 1"));
  EXPECT_TRUE(has("rank 9 does not exist"));
  EXPECT_TRUE(has("i32 cannot become bf16"));
  EXPECT_TRUE(has("staging_bytes"));
}

}  // namespace
}  // namespace trireme::tensors
