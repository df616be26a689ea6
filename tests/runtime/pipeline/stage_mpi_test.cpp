#include "runtime/comm/mpi_communicator.h"
#include "tests/runtime/pipeline/stage_cases.h"

namespace trireme::pipeline {
namespace {

void on_ranks(const std::function<void(comm::Communicator&)>& body) {
  comm::MpiThread thread;
  comm::MpiCommunicator world(thread, "world", comm::all_ranks(thread));
  body(world);
}

TEST(StageRunnerOverMpi, RunsTheWorkOfThoseWhoTakePart) {
  on_ranks(expect_stages_go_on);
}
TEST(StageRunnerOverMpi, ReportsTheSlowestRanksTimes) {
  on_ranks(expect_times_of_the_slowest);
}
TEST(StageRunnerOverMpi, OneRanksErrorIsEverybodys) {
  on_ranks([](comm::Communicator& world) {
    for (int failing = 0; failing < world.size(); ++failing) expect_one_error_is_everybodys(world, failing);
  });
}
TEST(StageRunnerOverMpi, NamesTheCauseAndNotItsConsequences) {
  on_ranks(expect_the_cause_is_named);
}
TEST(StageRunnerOverMpi, NoticesDifferentStages) {
  on_ranks(expect_different_stages_are_noticed);
}
TEST(StageRunnerOverMpi, AnErrorWhileOthersAreInACollectiveDoesNotHang) {
  on_ranks(expect_no_hang_out_of_step);
}

void on_lanes(const std::function<void(comm::Communicator&, comm::Communicator&)>& body) {
  comm::MpiThread thread;
  comm::MpiCommunicator world(thread, "world", comm::all_ranks(thread));
  std::vector<int> ranks{0};
  if (world.rank() > 0) {
    ranks.clear();
    for (int rank = 1; rank < world.size(); ++rank) ranks.push_back(rank);
  }
  comm::MpiCommunicator lane(thread, "lane", ranks);
  body(world, lane);
}

TEST(LanesOverMpi, WalkByThemselves) {
  on_lanes(expect_lanes_walk_by_themselves);
}
TEST(LanesOverMpi, KeepTheirErrors) {
  on_lanes(expect_an_error_stays_in_its_lane);
}

}  // namespace
}  // namespace trireme::pipeline
