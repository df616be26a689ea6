#include "trainer/sharding/pipeline_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

namespace trireme::sharding {
namespace {

struct Played {
  int64_t time = 0;          // until the last stage has ended its last pass
  std::vector<size_t> kept;  // the most micro-batches that each stage had between forward and backward
};

// All stages at once, each its passes in order, every pass as long as another: a forward pass waits for the
// one of the stage before, a backward pass for the one of the stage behind.
Played play(int stages, size_t micros) {
  std::vector<std::vector<Pass>> todo;
  for (int s = 0; s < stages; ++s) todo.push_back(one_forward_one_backward({s, stages}, micros));
  std::vector<size_t> next(stages);
  std::map<std::tuple<int, bool, size_t>, int64_t> done;
  std::vector<int64_t> free_at(stages);
  std::vector<size_t> open(stages);
  Played played{0, std::vector<size_t>(stages)};
  for (bool moved = true; moved;) {
    moved = false;
    for (int s = 0; s < stages; ++s) {
      if (next[s] == todo[s].size()) continue;
      const Pass pass = todo[s][next[s]];
      const int other = pass.is_forward ? s - 1 : s + 1;
      int64_t begin = free_at[s];
      if (other >= 0 && other < stages) {
        const auto found = done.find({other, pass.is_forward, pass.micro_batch});
        if (found == done.end()) continue;
        begin = std::max(begin, found->second);
      }
      done[{s, pass.is_forward, pass.micro_batch}] = free_at[s] = begin + 1;
      played.time = std::max(played.time, begin + 1);
      open[s] += pass.is_forward ? 1 : -1;
      played.kept[s] = std::max(played.kept[s], open[s]);
      ++next[s];
      moved = true;
    }
  }
  EXPECT_EQ(done.size(), 2 * micros * static_cast<size_t>(stages)) << "the stages wait for each other";
  return played;
}

TEST(PipelineSchedule, IsIdleNoLongerThanTheBubble) {
  for (int stages = 1; stages <= 9; ++stages)
    for (size_t micros = 1; micros <= 20; ++micros) {
      SCOPED_TRACE(testing::Message() << stages << " stages, " << micros << " micro-batches");
      const Played played = play(stages, micros);
      const auto busy = static_cast<double>(2 * micros);
      EXPECT_NEAR(1 - busy / static_cast<double>(played.time), pipeline_bubble(stages, micros), 1e-12);
      for (int s = 0; s < stages; ++s)
        EXPECT_EQ(played.kept[s], std::min(micros, static_cast<size_t>(stages - s)));
    }
  EXPECT_TRUE(one_forward_one_backward({1, 3}, 0).empty());
  EXPECT_EQ(pipeline_bubble(4, 0), 0);
  EXPECT_DOUBLE_EQ(pipeline_bubble(4, 9), 0.25);
}

TEST(PipelineSchedule, GoesThroughTheMicroBatchesInOrderBothWays) {
  for (int stage = 0; stage < 4; ++stage) {
    size_t forward = 0, backward = 0;
    for (const Pass& pass : one_forward_one_backward({stage, 4}, 7)) {
      EXPECT_EQ(pass.micro_batch, pass.is_forward ? forward++ : backward++);
      EXPECT_LE(backward, forward);
    }
    EXPECT_EQ(forward, 7);
    EXPECT_EQ(backward, 7);
  }
}

}  // namespace
}  // namespace trireme::sharding
