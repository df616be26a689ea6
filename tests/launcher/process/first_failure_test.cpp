#include "launcher/process/first_failure.h"

#include <gtest/gtest.h>

#include <csignal>

namespace trireme::process {
namespace {

struct Ending {
  bool signaled = false;
  int status = 0;
  int64_t at_ns = 0;
  bool ended_by_guard = false;
};

RankRecord ended(Ending e) {
  RankRecord record{.host = "n0"};
  record.exit = plan::Exit{e.signaled, e.status, e.ended_by_guard, e.at_ns, {}, 0, {}};
  return record;
}

RankRecord with_error(RankRecord record, ErrorCode code, const std::string& message, int64_t at_ns) {
  record.exit->page.has_error = true;
  record.exit->page.error_code = code;
  record.exit->page.error = message;
  record.exit->page.error_ns = at_ns;
  return record;
}

TEST(FirstFailure, IsNoneWhereAllEndedWell) {
  EXPECT_FALSE(first_failure({ended({.status = 0}), ended({.status = 75})}, false));
}

TEST(FirstFailure, IsTheEarliestExit) {
  const auto failure =
      first_failure({ended({.status = 1, .at_ns = 20}), ended({.status = 3, .at_ns = 10})}, false);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->rank, 1);
  EXPECT_EQ(failure->status, 3);
  EXPECT_EQ(failure->what, "ended with status 3");
  EXPECT_FALSE(failure->explained);
}

TEST(FirstFailure, NamesTheSignal) {
  const auto failure = first_failure({ended({}), ended({.signaled = true, .status = SIGSEGV})}, false);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->what, "was killed by SIGSEGV");
  EXPECT_EQ(failure->status, static_cast<int>(ExitStatus::rank_killed));
}

TEST(FirstFailure, PassesOverRanksThatWereEnded) {
  const auto failure =
      first_failure({ended({.signaled = true, .status = SIGTERM, .at_ns = 5, .ended_by_guard = true}),
                     ended({.status = 1, .at_ns = 9})},
                    false);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->rank, 1);
}

TEST(FirstFailure, PrefersTheCauseToWhoWasToldOfIt) {
  const auto failure =
      first_failure({with_error(ended({.status = 1, .at_ns = 5}), ErrorCode::peer_failed, "rank 1 failed", 5),
                     with_error(ended({.status = 1, .at_ns = 50}), ErrorCode::bad_shape, "3 is not 4", 7)},
                    false);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->rank, 1);
  EXPECT_EQ(failure->what, "3 is not 4");
  EXPECT_TRUE(failure->explained);
}

TEST(FirstFailure, CountsAnErrorFromWhenItWasRecordedNotFromTheExit) {
  const auto failure =
      first_failure({with_error(ended({.status = 1, .at_ns = 100}), ErrorCode::io, "disk", 10),
                     ended({.signaled = true, .status = SIGABRT, .at_ns = 20})},
                    false);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->rank, 0);
}

TEST(FirstFailure, TakesTheStatusFromTheErrorWhereTheRankHadNoneOfItsOwn) {
  auto killed = with_error(ended({.signaled = true, .status = SIGKILL, .ended_by_guard = true}),
                           ErrorCode::timeout, "slow", 1);
  EXPECT_EQ(first_failure({killed}, false)->status, static_cast<int>(ExitStatus::timed_out));
  EXPECT_EQ(first_failure({with_error(ended({.status = 2}), ErrorCode::io, "x", 1)}, false)->status, 2);
}

TEST(FirstFailure, NamesALostRank) {
  RankRecord lost{.host = "n0"};
  lost.lost_ns = 5;
  const auto failure =
      first_failure({ended({.signaled = true, .status = SIGTERM, .ended_by_guard = true}), lost}, false);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->rank, 1);
  EXPECT_EQ(failure->status, static_cast<int>(ExitStatus::timed_out));
}

RankRecord lost_on(const std::string& host, int64_t at_ns, bool silent = true) {
  RankRecord record{.host = host};
  record.lost_ns = at_ns;
  record.fell_silent = silent;
  return record;
}

TEST(FirstFailure, BlamesTheLostHostForWhatItsPeersSawEarlier) {
  auto peer = with_error(ended({.status = 1, .at_ns = 5}), ErrorCode::mpi, "connection reset by peer", 4);
  const auto failure = first_failure({peer, peer, lost_on("n1", 90), lost_on("n1", 91)}, false);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->rank, 2);
  EXPECT_NE(failure->what.find("lost with its host (ranks 2, 3): nothing is heard from it"),
            std::string::npos)
      << failure->what;
  EXPECT_TRUE(is_victim(peer.exit->page));
}

TEST(FirstFailure, DoesNotCallAHostLostThatStillHasRanks) {
  const std::vector<RankRecord> ranks{ended({.signaled = true, .status = SIGTERM, .ended_by_guard = true}),
                                      lost_on("n0", 90, false)};
  EXPECT_EQ(first_failure(ranks, false)->what, "was lost: its guard went away");
  EXPECT_TRUE(lost_hosts(ranks).empty());
}

TEST(FirstFailure, CountsAHostAsLostWhereAProcessDoesNotEnd) {
  auto stuck = ended({.status = 1});
  stuck.stuck = "state D";
  EXPECT_EQ(lost_hosts({stuck, ended({})}), (std::vector<std::string>{"n0"}));
}

TEST(FirstFailure, ComparesTimesOfDifferentHosts) {
  auto early = ended({.status = 3, .at_ns = 1000});  // its clock is 995 ahead
  early.clock_offset_ns = -995;
  EXPECT_EQ(first_failure({ended({.status = 1, .at_ns = 10}), early}, false)->rank, 1);
}

TEST(FirstFailure, TellsWhatTheSupervisorFoundOutAboutALivingRank) {
  auto stalled = ended({.signaled = true, .status = SIGKILL, .ended_by_guard = true});
  stalled.judged = "never entered all_reduce #3";
  stalled.judged_ns = 50;
  const auto failure =
      first_failure({ended({.signaled = true, .status = SIGTERM, .ended_by_guard = true}), stalled}, false);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->rank, 1);
  EXPECT_EQ(failure->what, "never entered all_reduce #3");
  EXPECT_EQ(failure->status, static_cast<int>(ExitStatus::timed_out));
  stalled.exit = plan::Exit{.status = 75};
  EXPECT_TRUE(first_failure({stalled}, false)) << "it wrote a checkpoint when it was told to end";
}

TEST(FirstFailure, ForgivesAnEndWithoutAnErrorWhenAStopWasAskedFor) {
  EXPECT_FALSE(first_failure({ended({.signaled = true, .status = SIGTERM}), ended({.status = 143})}, true));
  const auto failure = first_failure(
      {with_error(ended({.status = 1}), ErrorCode::io, "no space for the checkpoint", 1)}, true);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->what, "no space for the checkpoint");
}

}  // namespace
}  // namespace trireme::process
