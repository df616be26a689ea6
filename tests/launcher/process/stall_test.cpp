#include "launcher/process/stall.h"

#include <gtest/gtest.h>

namespace trireme::process {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

using Collective = plan::RankPage::Collective;

Collective at(const std::string& communicator, int64_t seq, bool running,
              const std::string& op = "all_reduce") {
  return {
      .communicator = communicator, .op = op, .dtype = "f32", .seq = seq, .count = 100, .running = running};
}

RankRecord rank_with(std::vector<Collective> collectives, const std::string& stage = "update_actor",
                     int64_t changed_ns = 10 * kSecond) {
  RankRecord record{.host = "h"};
  record.page.phase = "grpo";
  record.page.stage = stage;
  record.page.changed_ns = changed_ns;
  record.page.collectives = std::move(collectives);
  return record;
}

TEST(Stall, SuspectsTheRankThatNeverEnteredWhereTheOthersWait) {
  const auto stall = find_stall({rank_with({at("world", 9, false), at("dp", 812, true)}),
                                 rank_with({at("world", 9, false), at("dp", 811, false)}, "gen", 4 * kSecond),
                                 rank_with({at("world", 9, false), at("dp", 812, true)})},
                                98 * kSecond);
  EXPECT_EQ(stall.rank, 1);
  EXPECT_EQ(
      stall.what,
      "never entered all_reduce #812 of 'dp' (f32, 100 elements), in which ranks 0, 2 wait; it is in stage "
      "gen since 94 s");
}

TEST(Stall, PrefersTheRankThatWaitsNowhere) {
  // Rank 0 waits for 1 in 'a', rank 1 for 2 in 'b': 2 is the cause, although 1 is behind in 'a'.
  const auto stall =
      find_stall({rank_with({at("a", 5, true)}), rank_with({at("a", 4, false), at("b", 7, true)}),
                  rank_with({at("b", 6, false)})},
                 20 * kSecond);
  EXPECT_EQ(stall.rank, 2);
  EXPECT_NE(stall.what.find("#7 of 'b'"), std::string::npos) << stall.what;
}

TEST(Stall, NamesTheRankThatIsFurthestBehind) {
  const auto stall = find_stall({rank_with({at("world", 8, true)}), rank_with({at("world", 7, false)}),
                                 rank_with({at("world", 3, false)})},
                                20 * kSecond);
  EXPECT_EQ(stall.rank, 2);
}

TEST(Stall, TellsRanksThatWaitForEachOtherInACircle) {
  const auto stall = find_stall(
      {rank_with({at("a", 5, true), at("b", 6, false)}), rank_with({at("a", 4, false), at("b", 7, true)})},
      20 * kSecond);
  EXPECT_NE(stall.what.find("waits in a collective of another group"), std::string::npos) << stall.what;
}

TEST(Stall, TellsTwoThatDisagreeAboutTheSameCall) {
  const auto stall = find_stall(
      {rank_with({at("world", 5, true)}), rank_with({at("world", 5, true, "broadcast")})}, 20 * kSecond);
  EXPECT_EQ(stall.rank, 1);
  EXPECT_NE(stall.what.find("waits in broadcast #5"), std::string::npos) << stall.what;
  EXPECT_NE(stall.what.find("rank 0 is in all_reduce #5"), std::string::npos) << stall.what;
}

TEST(Stall, BlamesTheNetworkWhereAllHaveEntered) {
  const auto stall =
      find_stall({rank_with({at("world", 5, true)}), rank_with({at("world", 5, true)})}, 20 * kSecond);
  EXPECT_NE(stall.what.find("all ranks of the group have entered"), std::string::npos) << stall.what;
}

TEST(Stall, SuspectsWhoIsBehindWhereCallsAreOnlyEnqueued) {
  const auto stall = find_stall({rank_with({at("actor on GPUs", 5, false)}), rank_with({at("actor on GPUs", 4, false)})},
                                20 * kSecond);
  EXPECT_EQ(stall.rank, 1);
  EXPECT_NE(stall.what.find("#5 of 'actor on GPUs'"), std::string::npos) << stall.what;
}

TEST(Stall, PrefersTheNetworkOfThoseWhoWaitToWhoIsBehindInWhatIsOver) {
  // A broadcast's root may be ahead without anybody waiting.
  const auto stall = find_stall({rank_with({at("a", 5, false), at("b", 7, true)}),
                                 rank_with({at("a", 4, false), at("b", 6, false)})},
                                20 * kSecond);
  EXPECT_EQ(stall.rank, 1);
  EXPECT_NE(stall.what.find("of 'b'"), std::string::npos) << stall.what;
}

TEST(Stall, WithoutCollectivesNamesTheOneThatIsSilentForLongest) {
  const auto stall =
      find_stall({rank_with({}, "gen", 9 * kSecond), rank_with({}, "gen", 3 * kSecond)}, 20 * kSecond);
  EXPECT_EQ(stall.rank, 1);
  EXPECT_NE(stall.what.find("stage gen since 17 s"), std::string::npos) << stall.what;
}

TEST(Stall, ComparesClocksOfDifferentHosts) {
  auto far = rank_with({}, "gen", 900 * kSecond);  // its host's clock is 890 s ahead
  far.clock_offset_ns = -890 * kSecond;
  const auto stall = find_stall({rank_with({}, "gen", 3 * kSecond), far}, 20 * kSecond);
  EXPECT_EQ(stall.rank, 0);
}

TEST(Stall, KnowsARankThatHasSaidNothing) {
  EXPECT_NE(find_stall({RankRecord{}}, 20 * kSecond).what.find("has said nothing"), std::string::npos);
}

}  // namespace
}  // namespace trireme::process
