#include "runtime/placement/role_ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <set>

#include "runtime/base/error.h"

namespace trireme::placement {
namespace {

using Ranks = std::vector<int>;

std::string mistakes_in(const std::string& text, int num_ranks) {
  try {
    parse_ranks(text, num_ranks, "run.toml:7");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_config);
    return error.message();
  }
  ADD_FAILURE() << "'" << text << "' was accepted";
  return "";
}

TEST(ParseRanks, ReadsRangesAndSingleRanksInAnyOrder) {
  EXPECT_EQ(parse_ranks("0-3,6", 8, ""), (Ranks{0, 1, 2, 3, 6}));
  EXPECT_EQ(parse_ranks(" 5 , 0 - 1 ", 8, ""), (Ranks{0, 1, 5}));
  EXPECT_EQ(parse_ranks("7", 8, ""), (Ranks{7}));
  EXPECT_EQ(parse_ranks("2-2", 8, ""), (Ranks{2}));
}

TEST(ParseRanks, EmptyMeansAll) {
  EXPECT_EQ(parse_ranks("", 3, ""), (Ranks{0, 1, 2}));
  EXPECT_EQ(parse_ranks("  ", 1, ""), (Ranks{0}));
}

TEST(ParseRanks, ListsEveryMistakeWithItsPlace) {
  const std::string text = mistakes_in("0-9,x,3-1,2,2,2,-1,1--2,99999999999", 4);
  for (const char* part : {"run.toml:7: '0-9' names rank 9, but the run has 4 ranks (0-3)", "'x' is no rank",
                           "'3-1' runs backwards; write \"1-3\"", "rank 2 is named twice", "'-1' is no rank",
                           "'1--2' is no rank", "'99999999999' is no rank"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nnot in:\n" << text;
  EXPECT_EQ(text.find("rank 2 is named twice"), text.rfind("rank 2 is named twice"));
}

TEST(ParseRanks, RefusesEmptyItems) {
  EXPECT_NE(mistakes_in("0,,1", 4).find("''"), std::string::npos);
  EXPECT_NE(mistakes_in("0,", 4).find("''"), std::string::npos);
  EXPECT_NE(mistakes_in(",", 4).find("''"), std::string::npos);
}

TEST(ParseRanks, SaysWhichRankExistsInARunOfOne) {
  EXPECT_NE(mistakes_in("1", 1).find("the run has 1 rank (0)"), std::string::npos);
}

TEST(RoleRanks, ARoleWithoutRanksDoesNotExist) {
  const RoleRanks roles{.actor = {0, 1}, .critic = {}, .reference = {1}, .rollout = {2}};
  EXPECT_TRUE(roles.has(Role::actor, 1));
  EXPECT_FALSE(roles.has(Role::actor, 2));
  EXPECT_FALSE(roles.has(Role::critic, 0));
  EXPECT_EQ(roles.of(Role::rollout), (Ranks{2}));
  EXPECT_FALSE(roles.colocated());
}

TEST(RoleRanks, ColocatedLooksAtExistingRolesOnly) {
  EXPECT_TRUE((RoleRanks{.actor = {0, 1}, .rollout = {0, 1}}).colocated());
  EXPECT_TRUE(RoleRanks{}.colocated());
  EXPECT_FALSE((RoleRanks{.actor = {0}, .rollout = {0, 1}}).colocated());
}

TEST(Role, HasTheConfigurationsNames) {
  EXPECT_STREQ(to_string(Role::actor), "actor");
  EXPECT_STREQ(to_string(Role::critic), "critic");
  EXPECT_STREQ(to_string(Role::reference), "reference");
  EXPECT_STREQ(to_string(Role::rollout), "rollout");
}

TEST(Mesh, LaysRanksOutWithTpInside) {
  const Mesh mesh = Mesh::of({1, 2, 5, 7, 8, 9}, {.tp = 2});
  EXPECT_EQ(mesh.dp, 3);
  EXPECT_EQ(mesh.replica(1), (std::vector<int>{5, 7}));
  EXPECT_EQ(mesh.along(Axis::tp, {1, 0, 0, 0}), (std::vector<int>{5, 7}));
  EXPECT_EQ(mesh.along(Axis::dp, {0, 0, 0, 1}), (std::vector<int>{2, 7, 9}));
  EXPECT_EQ(mesh.replicas(), (std::vector<std::vector<int>>{{1, 2}, {5, 7}, {8, 9}}));
  EXPECT_FALSE(mesh.find(3));
  EXPECT_THROW(Mesh::of({0, 1, 2}, {.tp = 2}), Error);
  EXPECT_TRUE(Mesh::of({}, {.tp = 4}).replicas().empty());
  EXPECT_EQ(mesh.text(), "dp 3 x tp 2");
}

TEST(Mesh, CountsTheRanksOffOneAxisWithinTheOther) {
  std::vector<int> ranks(2 * 3 * 2 * 2);
  std::iota(ranks.begin(), ranks.end(), 100);
  const Mesh mesh = Mesh::of(ranks, {.pp = 3, .cp = 2, .tp = 2});
  EXPECT_EQ(mesh.text(), "dp 2 x pp 3 x cp 2 x tp 2");
  int next = 100;
  for (int d = 0; d < 2; ++d)
    for (int p = 0; p < 3; ++p)
      for (int c = 0; c < 2; ++c)
        for (int t = 0; t < 2; ++t, ++next) {
          EXPECT_EQ(mesh.rank({d, p, c, t}), next);
          const auto place = mesh.find(next);
          ASSERT_TRUE(place);
          EXPECT_EQ((std::array{place->d, place->p, place->c, place->t}), (std::array{d, p, c, t}));
        }
  EXPECT_EQ(mesh.replica(1), Ranks(ranks.begin() + 12, ranks.end()));
  EXPECT_EQ(mesh.along(Axis::cp, {1, 2, 0, 1}), (Ranks{121, 123}));
  EXPECT_EQ(mesh.along(Axis::pp, {0, 2, 1, 0}), (Ranks{102, 106, 110}));
  EXPECT_EQ(mesh.same_weights({1, 1, 1, 1}), (Ranks{105, 107, 117, 119}));
}

TEST(Groups, EndWithAllRanksWhereNoRoleHasThemAll) {
  const RoleRanks roles{.actor = {2, 3}, .rollout = {0, 1, 3}};
  const Group last = groups_of(roles).back();
  EXPECT_EQ(last.name, kWeights);
  EXPECT_EQ(last.ranks, (Ranks{0, 1, 2, 3}));
}

TEST(Groups, HoldTheOtherRolesRanksWhereRolloutIsApart) {
  const auto has_training = [](const RoleRanks& roles) {
    for (const Group& group : groups_of(roles))
      if (group.name == kTraining) return group.ranks == roles.training();
    return false;
  };
  EXPECT_TRUE(has_training({.actor = {0, 1}, .critic = {2}, .rollout = {3}}));
  EXPECT_FALSE(has_training({.actor = {0, 1}, .rollout = {3}}));  // the actor's own group is that
  EXPECT_FALSE(has_training({.actor = {0, 1}, .critic = {2}, .rollout = {2, 3}}));
  EXPECT_FALSE(has_training({.actor = {0, 1}, .critic = {2}}));
  const RoleRanks judged{.actor = {0, 2}, .rollout = {3, 4}, .reward_model = {1, 4}};
  EXPECT_EQ(judged.generating(), (Ranks{1, 3, 4}));
  const auto groups = groups_of(judged);
  EXPECT_TRUE(std::any_of(groups.begin(), groups.end(), [&](const Group& group) {
    return group.name == kGenerating && group.ranks == judged.generating();
  }));
  EXPECT_TRUE((RoleRanks{.actor = {0, 1}, .rollout = {3}}).rollout_is_apart());
  EXPECT_FALSE((RoleRanks{.actor = {0, 1}}).rollout_is_apart());
}

TEST(Groups, AreOpenedOnceWhateverNeedsThem) {
  RoleRanks roles{.actor = {0, 1, 2, 3}, .rollout = {0, 1, 2, 3}};
  roles.axes = {.actor = {.tp = 2}, .rollout = {.tp = 4}};
  std::vector<std::string> names;
  std::set<std::vector<int>> ranks;
  for (const Group& group : groups_of(roles)) {
    names.push_back(group.name);
    EXPECT_TRUE(ranks.insert(group.ranks).second) << group.name;
  }
  // Rollout's one replica is all its ranks, which is a group already; its dp groups are single ranks.
  EXPECT_EQ(names, (std::vector<std::string>{"actor+rollout", "actor.tp", "actor.tp", "actor.dp", "actor.dp",
                                             "rollout.dp", "rollout.dp", "rollout.dp", "rollout.dp"}));
}

TEST(Groups, FollowEveryAxis) {
  RoleRanks roles{.actor = {0, 1, 2, 3, 4, 5, 6, 7}};
  roles.axes.actor = {.pp = 2, .cp = 2};
  std::vector<std::pair<std::string, Ranks>> groups;
  for (const Group& group : groups_of(roles))
    if (group.ranks.size() > 1) groups.emplace_back(group.name, group.ranks);
  EXPECT_EQ(groups, (std::vector<std::pair<std::string, Ranks>>{{"actor", {0, 1, 2, 3, 4, 5, 6, 7}},
                                                                {"actor.cp", {0, 1}},
                                                                {"actor.cp", {2, 3}},
                                                                {"actor.cp", {4, 5}},
                                                                {"actor.cp", {6, 7}},
                                                                {"actor.pp", {0, 2}},
                                                                {"actor.pp", {1, 3}},
                                                                {"actor.pp", {4, 6}},
                                                                {"actor.pp", {5, 7}},
                                                                {"actor.dp", {0, 4}},
                                                                {"actor.dp", {1, 5}},
                                                                {"actor.dp", {2, 6}},
                                                                {"actor.dp", {3, 7}},
                                                                {"actor.dp.cp", {0, 1, 4, 5}},
                                                                {"actor.dp.cp", {2, 3, 6, 7}}}));
}

}  // namespace
}  // namespace trireme::placement
