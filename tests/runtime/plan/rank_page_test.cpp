#include "runtime/plan/rank_page.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/files.h"

namespace trireme::plan {
namespace {

TEST(RankPage, StartsEmpty) {
  const auto snapshot = RankPage::open("").read();
  EXPECT_EQ(snapshot.phase, "");
  EXPECT_EQ(snapshot.step, 0);
  EXPECT_FALSE(snapshot.has_error);
  EXPECT_TRUE(snapshot.collectives.empty());
}

TEST(RankPage, CountsTicks) {
  auto page = RankPage::open("");
  page.tick();
  page.set_stage("gen");
  page.tick();
  EXPECT_EQ(page.read().ticks, 2);
}

TEST(RankPage, ShowsPhaseStepAndStage) {
  auto page = RankPage::open("");
  page.set_phase("grpo", 200);
  page.set_step(12);
  page.set_stage("gen");
  const auto snapshot = page.read();
  EXPECT_EQ(snapshot.phase, "grpo");
  EXPECT_EQ(snapshot.total_steps, 200);
  EXPECT_EQ(snapshot.step, 12);
  EXPECT_EQ(snapshot.stage, "gen");
  EXPECT_GE(snapshot.changed_ns, snapshot.phase_began_ns);
  page.set_phase("eval", 0);
  EXPECT_EQ(page.read().step, 0);
  EXPECT_EQ(page.read().stage, "");
}

TEST(RankPage, KeepsTheFirstErrorAndCutsALongOne) {
  auto page = RankPage::open("");
  page.set_error(ErrorCode::mpi, std::string(100'000, 'x'));
  page.set_error(ErrorCode::internal, "second");
  const auto snapshot = page.read();
  EXPECT_TRUE(snapshot.has_error);
  EXPECT_EQ(snapshot.error_code, ErrorCode::mpi);
  EXPECT_EQ(snapshot.error.find_first_not_of('x'), std::string::npos);
  EXPECT_GT(snapshot.error.size(), 4000u);
}

TEST(RankPage, CountsTheCollectivesOfEachCommunicator) {
  auto page = RankPage::open("");
  const int world = page.communicator_slot("world"), actor = page.communicator_slot("actor");
  EXPECT_EQ(page.communicator_slot("world"), world);
  EXPECT_NE(world, actor);
  page.begin_collective(world, "all_reduce", "f32", 10);
  page.end_collective(world);
  page.begin_collective(world, "broadcast", "i64", 3);
  const auto snapshot = page.read();
  ASSERT_EQ(snapshot.collectives.size(), 2u);
  const auto& c = snapshot.collectives[0];
  EXPECT_EQ(c.communicator, "world");
  EXPECT_EQ(c.seq, 2);
  EXPECT_EQ(c.op, "broadcast");
  EXPECT_EQ(c.dtype, "i64");
  EXPECT_EQ(c.count, 3);
  EXPECT_TRUE(c.running);
  EXPECT_EQ(snapshot.collectives[1].seq, 0);
}

TEST(RankPage, DoesWithoutASlotWhenAllAreTaken) {
  auto page = RankPage::open("");
  for (int i = 0; i < RankPage::kCommunicators; ++i) EXPECT_EQ(page.communicator_slot(std::to_string(i)), i);
  EXPECT_EQ(page.communicator_slot("one more"), -1);
  page.begin_collective(-1, "all_reduce", "f32", 1);
  page.end_collective(-1);
}

TEST(RankPage, OutlivesTheProcessThatWroteIt) {
  const auto page = RankPage::create_inherited();
  const pid_t child = ::fork();
  if (child == 0) {
    auto mine = RankPage::open(page.path());
    mine.set_phase("sft", 5);
    mine.set_error(ErrorCode::io, "no space left");
    ::raise(SIGKILL);
  }
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(page.read().phase, "sft");
  EXPECT_EQ(page.read().error, "no space left");
}

TEST(RankPage, LiesInAFileToo) {
  const std::string path = std::filesystem::temp_directory_path() / "trireme_rank_page_test";
  const auto reader = RankPage::create(path);
  RankPage::open(path).set_step(7);
  EXPECT_EQ(reader.read().step, 7);
  files::write_atomically(path, "something else");
  EXPECT_THROW(RankPage::open(path), Error);
  std::filesystem::remove(path);
  EXPECT_THROW(RankPage::open(path), Error);
}

TEST(RankPage, NeverShowsHalfOfAWrite) {
  auto page = RankPage::open("");
  std::atomic<bool> done = false;
  const auto write = [&](const std::string& phase, int64_t total) {
    for (int i = 0; i < 50'000; ++i) page.set_phase(phase, total);
  };
  std::thread reader([&] {
    while (!done) {
      const auto s = page.read();
      if (!s.phase.empty()) {
        EXPECT_EQ(s.total_steps, s.phase == "first" ? 1 : 2) << s.phase;
      }
    }
  });
  std::thread first([&] { write("first", 1); }), second([&] { write("second", 2); });
  first.join();
  second.join();
  done = true;
  reader.join();
}

}  // namespace
}  // namespace trireme::plan
