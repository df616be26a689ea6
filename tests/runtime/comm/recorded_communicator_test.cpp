#include "runtime/comm/recorded_communicator.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "runtime/comm/local_communicator.h"

namespace trireme::comm {
namespace {

BufferView view(std::vector<float>& values) {
  return {values.data(), static_cast<int64_t>(values.size()), DType::f32};
}

TEST(RecordedCommunicator, CountsCollectivesOnThePageAndPassesThemOn) {
  LocalWorld::run(2, [](Communicator& inner) {
    auto page = plan::RankPage::open("");
    RecordedCommunicator comm(inner, page, "actor.dp@0");
    std::vector<float> values{1.0F + static_cast<float>(comm.rank()), 2.0F};
    comm.all_reduce(view(values), ReduceOp::sum);
    EXPECT_EQ(values, (std::vector<float>{3.0F, 4.0F}));
    comm.barrier();
    const auto collectives = page.read().collectives;
    ASSERT_EQ(collectives.size(), 1u);
    EXPECT_EQ(collectives[0].communicator, "actor.dp@0");
    EXPECT_EQ(collectives[0].op, "barrier");
    EXPECT_EQ(collectives[0].seq, 2);
    EXPECT_FALSE(collectives[0].running);
  });
}

TEST(RecordedCommunicator, ShowsWhatIsUnderWayUntilAllOfItHasEnded) {
  LocalWorld::run(2, [](Communicator& inner) {
    auto page = plan::RankPage::open("");
    RecordedCommunicator comm(inner, page, "actor");
    std::vector<float> first(3, 1.0F), second(5, 1.0F);
    auto a = comm.all_reduce_async(view(first), ReduceOp::sum);
    auto b = comm.broadcast_async(view(second), 0);
    auto now = page.read().collectives.at(0);
    EXPECT_EQ(now.op, "broadcast");
    EXPECT_EQ(now.dtype, "f32");
    EXPECT_EQ(now.count, 5);
    EXPECT_EQ(now.seq, 2);
    EXPECT_TRUE(now.running);
    a->wait();
    EXPECT_TRUE(page.read().collectives.at(0).running);
    b->wait();
    EXPECT_FALSE(page.read().collectives.at(0).running);
  });
}

TEST(RecordedCommunicator, DoesNotCountMessagesThatSomeRanksDoNotMake) {
  LocalWorld::run(3, [](Communicator& inner) {
    auto page = plan::RankPage::open("");
    RecordedCommunicator comm(inner, page, "world");
    std::vector<float> value{static_cast<float>(comm.rank())};
    if (comm.rank() == 0) {
      const std::array<Send, 1> send{{{1, view(value)}}};
      comm.send_recv(send, {});
    }
    if (comm.rank() == 1) {
      const std::array<Receive, 1> receive{{{0, view(value)}}};
      comm.send_recv({}, receive);
      EXPECT_EQ(value[0], 0.0F);
    }
    comm.barrier();
    EXPECT_EQ(page.read().collectives.at(0).seq, 1);
  });
}

TEST(RecordedCommunicator, IsItsOwnHostWhereBuffersLieInHostMemory) {
  LocalWorld world(1);
  auto page = plan::RankPage::open("");
  RecordedCommunicator comm(world.communicator(0), page, "world");
  EXPECT_EQ(&comm.host(), &comm);
  EXPECT_EQ(comm.all_reduce_scalar(3.0), 3.0);
  EXPECT_GE(page.read().collectives.at(0).seq, 1);
}

}  // namespace
}  // namespace trireme::comm
