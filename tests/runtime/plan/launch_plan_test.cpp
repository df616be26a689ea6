#include "runtime/plan/launch_plan.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "runtime/base/error.h"
#include "runtime/base/files.h"

namespace trireme::plan {
namespace {

LaunchPlan two_ranks() {
  LaunchPlan plan{.run_dir = "/tmp/run",
                  .program = {"/usr/bin/trireme-trainer", "run"},
                  .holds_stop = true,
                  .attempt = 2,
                  .restarts = 1,
                  .max_restarts = 3,
                  .master_address = "10.0.0.1",
                  .master_port = 4711,
                  .ranks = {}};
  plan.ranks.push_back(
      {.host = "n0", .local_rank = 0, .cpus = {0, 1}, .memory_node = 0, .threads = 2, .environment = {}});
  plan.ranks.push_back({.host = "n1",
                        .node = 1,
                        .local_rank = 0,
                        .cpus = {2, 3},
                        .memory_node = 1,
                        .gpu = 1,
                        .gpu_bus_id = "0000:3b:00.0",
                        .port = "mlx5_1:1",
                        .threads = 2,
                        .environment = {{"NCCL_DEBUG", "WARN"}}});
  return plan;
}

std::string error_of(const std::string& text) {
  try {
    launch_plan_from_json(text, "plan.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::corrupt_data);
    return error.what();
  }
  return "no error";
}

TEST(LaunchPlan, ComesBackFromJsonAsItWas) {
  EXPECT_EQ(launch_plan_from_json(to_json(two_ranks()), "plan.json"), two_ranks());
}

TEST(LaunchPlan, CountsTheRanksOfAHost) {
  auto plan = two_ranks();
  plan.ranks.push_back(plan.ranks[1]);
  EXPECT_EQ(ranks_on(plan, 0), 1);
  EXPECT_EQ(ranks_on(plan, 1), 2);
  EXPECT_EQ(ranks_on(plan, 2), 0);
}

TEST(LaunchPlan, ComesBackFromAFile) {
  const auto folder = std::filesystem::temp_directory_path() / "trireme_launch_plan_test";
  std::filesystem::create_directories(folder);
  save(two_ranks(), launch_plan_path(folder));
  EXPECT_EQ(load_launch_plan(folder / "launch_plan.json"), two_ranks());
  EXPECT_THROW(load_launch_plan(folder / "absent.json"), Error);
  std::filesystem::remove_all(folder);
}

TEST(LaunchPlan, NamesTheFieldThatIsMissing) {
  std::string text = to_json(two_ranks());
  text.replace(text.find("\"memory_node\""), 13, "\"memorynode\"");
  EXPECT_EQ(error_of(text), "plan.json, rank 0: 'memory_node' is missing");
}

TEST(LaunchPlan, NamesTheFieldOfTheWrongType) {
  std::string text = to_json(two_ranks());
  text.replace(text.find("\"attempt\": 2"), 12, "\"attempt\": []");
  EXPECT_EQ(error_of(text), "plan.json: 'attempt' is of the wrong type: []");
}

TEST(LaunchPlan, RefusesAnotherVersionAndWhatIsNoJson) {
  std::string text = to_json(two_ranks());
  text.replace(text.find("\"version\": 4"), 12, "\"version\": 9");
  EXPECT_EQ(error_of(text), "plan.json is of version 9, this program reads 4");
  EXPECT_EQ(error_of("{"), "plan.json is no JSON");
  EXPECT_EQ(error_of("[]"), "plan.json: expected an object that holds 'version'");
}

TEST(LaunchPlan, RefusesRanksOutOfOrder) {
  std::string text = to_json(two_ranks());
  text.replace(text.find("\"rank\": 1"), 9, "\"rank\": 0");
  EXPECT_EQ(error_of(text), "plan.json, rank 1: ranks are not in order");
}

}  // namespace
}  // namespace trireme::plan
