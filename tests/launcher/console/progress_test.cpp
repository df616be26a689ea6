#include "launcher/console/progress.h"

#include <gtest/gtest.h>

namespace trireme::console {
namespace {

using namespace std::chrono_literals;

Progress half_way() {
  return {.phase = "grpo",
          .stage = "gen",
          .step = 100,
          .total_steps = 200,
          .left = 83s,
          .elapsed = 90s,
          .note = ""};
}

TEST(Progress, ShowsPhaseStepsShareAndTimes) {
  EXPECT_EQ(draw(half_way(), 73, false),
            "grpo 100/200 [##########..........]  50%  1:23 left  1:30  gen          ");
}

TEST(Progress, FitsTheTerminal) {
  for (int columns = 0; columns < 200; ++columns)
    EXPECT_LE(static_cast<int>(draw(half_way(), columns, false).size()), columns) << columns;
  EXPECT_EQ(draw(half_way(), 200, false).find('#') + 20, draw(half_way(), 200, false).find('.'));
}

TEST(Progress, SaysThatARunIsStarting) {
  EXPECT_EQ(draw({.elapsed = 2s}, 80, false), "starting  0:02");
}

TEST(Progress, NotesThatARunIsStopping) {
  auto progress = half_way();
  progress.note = "stopping";
  EXPECT_NE(draw(progress, 80, false).find("stopping"), std::string::npos);
  EXPECT_EQ(draw(progress, 80, false).find("gen"), std::string::npos);
}

TEST(Progress, StaysFullBeyondTheEnd) {
  auto progress = half_way();
  progress.step = 300;
  EXPECT_NE(draw(progress, 80, false).find("100%"), std::string::npos);
}

TEST(TimeLeft, IsWhatTheRemainingStepsWillTake) {
  EXPECT_EQ(time_left(10, 40, 20s, 0s), 60s);
  EXPECT_EQ(time_left(10, 40, 20s, 1s), 59s);
  EXPECT_EQ(time_left(10, 40, 20s, 1000s), 0s);
  EXPECT_EQ(time_left(40, 40, 20s, 0s), 0s);
}

TEST(TimeLeft, IsUnknownBeforeTheFirstStepAndWithoutATotal) {
  EXPECT_EQ(time_left(0, 40, 20s, 0s), std::nullopt);
  EXPECT_EQ(time_left(3, 0, 20s, 0s), std::nullopt);
}

TEST(Duration, ReadsAsAClock) {
  EXPECT_EQ(format_duration(7s), "0:07");
  EXPECT_EQ(format_duration(750s), "12:30");
  EXPECT_EQ(format_duration(3900s), "1:05:00");
}

}  // namespace
}  // namespace trireme::console
