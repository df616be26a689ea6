#include "runtime/comm/local_communicator.h"
#include "tests/runtime/pipeline/stage_cases.h"

namespace trireme::pipeline {
namespace {

using comm::Communicator;
using comm::LocalWorld;

TEST(StageRunner, RunsTheWorkOfThoseWhoTakePart) {
  LocalWorld::run(3, expect_stages_go_on);
}

TEST(StageRunner, ReportsTheSlowestRanksTimes) {
  LocalWorld::run(3, expect_times_of_the_slowest);
}

TEST(StageRunner, OneRanksErrorIsEverybodys) {
  for (int failing = 0; failing < 3; ++failing)
    LocalWorld::run(3, [&](Communicator& world) { expect_one_error_is_everybodys(world, failing); });
}

TEST(StageRunner, NamesTheCauseAndNotItsConsequences) {
  LocalWorld::run(3, expect_the_cause_is_named);
}

TEST(StageRunner, NoticesDifferentStages) {
  LocalWorld::run(3, expect_different_stages_are_noticed);
}

TEST(StageRunner, AnErrorWhileOthersAreInACollectiveDoesNotHang) {
  LocalWorld::run(3, expect_no_hang_out_of_step);
}

void on_lanes(const std::function<void(Communicator&, Communicator&)>& body) {
  LocalWorld alone(1), others(2);
  LocalWorld::run(3, [&](Communicator& world) {
    body(world, world.rank() == 0 ? alone.communicator(0) : others.communicator(world.rank() - 1));
  });
}

TEST(Lanes, WalkByThemselves) {
  on_lanes(expect_lanes_walk_by_themselves);
}

TEST(Lanes, KeepTheirErrors) {
  on_lanes(expect_an_error_stays_in_its_lane);
}

TEST(StageRunner, WorksAlone) {
  LocalWorld::run(1, [](Communicator& world) {
    expect_stages_go_on(world);
    expect_one_error_is_everybodys(world, 0);
  });
}

}  // namespace
}  // namespace trireme::pipeline
