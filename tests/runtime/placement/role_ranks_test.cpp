#include "runtime/placement/role_ranks.h"

#include <gtest/gtest.h>

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
  const Mesh mesh = Mesh::of({1, 2, 5, 7, 8, 9}, 2);
  EXPECT_EQ(mesh.dp, 3);
  EXPECT_EQ(mesh.replica(1), (std::vector<int>{5, 7}));
  EXPECT_EQ(mesh.part(1), (std::vector<int>{2, 7, 9}));
  EXPECT_EQ(mesh.replicas(), (std::vector<std::vector<int>>{{1, 2}, {5, 7}, {8, 9}}));
  for (int d = 0; d < mesh.dp; ++d)
    for (int t = 0; t < mesh.tp; ++t) {
      const auto place = mesh.find(mesh.rank(d, t));
      ASSERT_TRUE(place);
      EXPECT_EQ(place->d, d);
      EXPECT_EQ(place->t, t);
    }
  EXPECT_FALSE(mesh.find(3));
  EXPECT_THROW(Mesh::of({0, 1, 2}, 2), Error);
  EXPECT_TRUE(Mesh::of({}, 4).replicas().empty());
}

TEST(Groups, AreOpenedOnceWhateverNeedsThem) {
  RoleRanks roles{.actor = {0, 1, 2, 3}, .rollout = {0, 1, 2, 3}};
  roles.tp = {.actor = 2, .rollout = 4};
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

}  // namespace
}  // namespace trireme::placement
