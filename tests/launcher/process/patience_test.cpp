#include "launcher/process/patience.h"

#include <gtest/gtest.h>

namespace trireme::process {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const Clock::time_point kBegin{seconds(1000)};
constexpr int64_t kNow = 2'000'000'000'000;

std::vector<RankRecord> two_ranks() {
  RankRecord waiting{.host = "a"}, late{.host = "b"};
  waiting.page.collectives = {
      {.communicator = "dp", .op = "all_reduce", .dtype = "f32", .seq = 8, .running = true}};
  late.page.collectives = {{.communicator = "dp", .op = "all_reduce", .dtype = "f32", .seq = 7}};
  late.page.stage = "gen";
  return {waiting, late};
}

TEST(Patience, CallsItAStallAfterTheGivenTimeAndNotBefore) {
  const auto ranks = two_ranks();
  const Patience patience(2, seconds(40), kBegin);
  EXPECT_FALSE(patience.overdue(ranks, 2, kBegin + seconds(40), kNow));
  const auto found = patience.overdue(ranks, 2, kBegin + seconds(40) + milliseconds(1), kNow);
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->is_stall);
  EXPECT_EQ(found->rank, 1);
  EXPECT_NE(found->what.find("never entered all_reduce #8 of 'dp'"), std::string::npos) << found->what;
  EXPECT_NE(found->what.find("(no progress anywhere for 40 s; the limit is 40 s)"), std::string::npos)
      << found->what;
}

TEST(Patience, TakesEverySignOfLifeForProgress) {
  const auto ranks = two_ranks();
  plan::RankPage::Snapshot before = ranks[1].page;
  const auto changed = [&](auto change) {
    Patience patience(2, seconds(40), kBegin);
    auto page = before;
    change(page);
    patience.note_page(before, page, kBegin + seconds(30));
    return !patience.overdue(ranks, 2, kBegin + seconds(60), kNow) &&
           patience.overdue(ranks, 2, kBegin + seconds(71), kNow);
  };
  EXPECT_TRUE(changed([](auto& page) { page.changed_ns = 5; }));
  EXPECT_TRUE(changed([](auto& page) { page.collectives[0].seq = 8; }));
  EXPECT_TRUE(changed([](auto& page) { ++page.ticks; })) << "a long rollout";
  Patience patience(2, seconds(40), kBegin);
  patience.note_page(before, before, kBegin + seconds(30));
  EXPECT_TRUE(patience.overdue(ranks, 2, kBegin + seconds(41), kNow)) << "nothing has changed";
}

TEST(Patience, WaitsTenTimesTheLongestWaitWhereNoTimeIsGiven) {
  Patience patience(2, seconds(0), kBegin);
  EXPECT_EQ(patience.stall_limit(), seconds(300));
  patience.note_progress(kBegin + seconds(50));
  EXPECT_EQ(patience.stall_limit(), seconds(500));
  patience.note_pause(kBegin + seconds(5000));
  patience.note_progress(kBegin + seconds(5001));
  EXPECT_EQ(patience.stall_limit(), seconds(500)) << "nobody waited during the pause";
}

TEST(Patience, GivesUpOnGuardsThatNeverReport) {
  const auto ranks = two_ranks();
  const Patience patience(2, seconds(1), kBegin);
  EXPECT_FALSE(patience.overdue(ranks, 1, kBegin + seconds(59), kNow)) << "a start is no stall";
  const auto found = patience.overdue(ranks, 1, kBegin + seconds(61), kNow);
  ASSERT_TRUE(found);
  EXPECT_FALSE(found->rank);
  EXPECT_EQ(found->what, "1 of 2 ranks did not start within 60 s");
}

TEST(Patience, GivesAStoppedRankAMoment) {
  const auto ranks = two_ranks();
  Patience patience(2, seconds(0), kBegin);
  EXPECT_TRUE(patience.note_stop(1, true, kBegin));
  EXPECT_FALSE(patience.note_stop(1, true, kBegin + seconds(2))) << "it is told once";
  EXPECT_FALSE(patience.overdue(ranks, 2, kBegin + seconds(3), kNow));
  const auto found = patience.overdue(ranks, 2, kBegin + seconds(4), kNow);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 1);
  EXPECT_FALSE(found->is_stall);
  patience.note_stop(1, false, kBegin + seconds(4));
  EXPECT_FALSE(patience.overdue(ranks, 2, kBegin + seconds(4), kNow));
}

TEST(Patience, DoesNotWaitForLongWhenARankHasEnded) {
  auto ranks = two_ranks();
  ranks[0].exit = plan::Exit{};
  const Patience patience(2, seconds(300), kBegin);
  EXPECT_FALSE(patience.overdue(ranks, 2, kBegin + seconds(60), kNow));
  const auto found = patience.overdue(ranks, 2, kBegin + seconds(61), kNow);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->what, "1 of 2 ranks have ended, and for 60 s the others went on without any progress");
}

}  // namespace
}  // namespace trireme::process
