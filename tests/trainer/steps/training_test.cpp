// Whole runs of the real programs: `trireme run` on two MPI ranks, stopped, resumed, broken.
#include <nlohmann/json.hpp>

#include "runtime/observe/metrics.h"
#include "tests/launcher/commands/launch.h"

namespace trireme::commands {
namespace {

namespace fs = std::filesystem;

class Training : public LaunchTest {
 protected:
  // A few steps of each phase of the quickstart.
  void start_training(int ranks, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments{"run",
                                       configuration(),
                                       "-n",
                                       std::to_string(ranks),
                                       "--run-dir",
                                       run_dir(),
                                       "sft.max_steps=6",
                                       "sft.optim.lr_warmup_steps=2",
                                       "sft.stop_check_from=2",
                                       "sft.stop_check_freq=2",
                                       "sft.stop_check_samples=16",
                                       "data.arithmetic.num_val=16",
                                       "trainer.total_training_steps=4",
                                       "actor.optim.lr_warmup_steps=2",
                                       "trainer.save_freq=2",
                                       "trainer.test_freq=3",
                                       "data.train_batch_size=8",
                                       "rollout.n=4"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    start(std::move(arguments));
  }
  std::string weights(const std::string& checkpoint) const {
    return read_all(fs::path(run_dir()) / "checkpoints" / checkpoint / "model.safetensors");
  }
  nlohmann::json summary() const {
    return nlohmann::json::parse(read_all(fs::path(run_dir()) / "summary.json"));
  }
};

TEST_F(Training, WalksAllPhasesOnTwoRanksAndLeavesARunFolderThatExplainsItself) {
  start_training(2);
  const auto result = finish(std::chrono::seconds(100));
  ASSERT_EQ(result.status, 0) << result.out << result.err;
  EXPECT_NE(result.out.find("step 4/4  reward "), std::string::npos) << result.out;
  const auto closing = summary();
  for (const char* key : {"eval_before", "eval_after_sft", "eval_after"}) {
    EXPECT_GE(closing.at(key).get<double>(), 0.0);
    EXPECT_LE(closing.at(key).get<double>(), 1.0);
  }
  EXPECT_EQ(closing.at("ranks"), 2);
  EXPECT_GT(closing.at("tokens_per_second").get<double>(), 0.0);
  EXPECT_GT(closing.at("seconds").at("update_actor").get<double>(), 0.0);
  for (const char* file : {"config.toml", "launch_plan.json", "logs/rank-0.log", "logs/rank-1.log",
                           "metrics.jsonl", "checkpoints/sft/config.json",
                           "checkpoints/step_2/tokenizer.json", "checkpoints/step_4/manifest.json"})
    EXPECT_TRUE(fs::exists(fs::path(run_dir()) / file)) << file;

  // Every number has its line in docs/metrics.md, and is a number.
  std::istringstream lines(read_all(fs::path(run_dir()) / "metrics.jsonl"));
  int steps = 0;
  for (std::string line; std::getline(lines, line); ++steps)
    for (const auto& [name, value] : nlohmann::json::parse(line).at("metrics").items()) {
      EXPECT_TRUE(observe::is_documented(name)) << name;
      EXPECT_TRUE(value.is_number()) << name;
    }
  EXPECT_GE(steps, 10);
}

TEST_F(Training, ARunThatIsStoppedAndResumedEndsInTheSameBits) {
  start_training(2, {"trainer.total_training_steps=60", "trainer.save_freq=-1"});
  ASSERT_EQ(finish(std::chrono::seconds(100)).status, 0);
  const std::string straight = weights("step_60");
  ASSERT_FALSE(straight.empty());
  fs::remove_all(run_dir());
  fs::remove(folder_ / "out");  // or the first run's lines would be waited for

  start_training(2, {"trainer.total_training_steps=60", "trainer.save_freq=-1"});
  ASSERT_TRUE(wait_for("out", "step 1/60")) << read_all(folder_ / "err");
  send(SIGTERM);
  ASSERT_EQ(finish(std::chrono::seconds(100)).status, 75);
  EXPECT_FALSE(fs::exists(fs::path(run_dir()) / "summary.json"));
  start_training(2, {"trainer.total_training_steps=60", "trainer.save_freq=-1"});
  const auto resumed = finish(std::chrono::seconds(100));
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_NE(resumed.out.find("resuming from "), std::string::npos) << resumed.out;
  EXPECT_TRUE(weights("step_60") == straight);
}

// What a step hands on beside weights: the KL's weight, and how many problems dynamic sampling took.
TEST_F(Training, DynamicSamplingAndAnAdaptiveKlGoOnFromACheckpoint) {
  const std::vector<std::string> dapo{
      "algorithm.filter_groups.enable=true",   "algorithm.filter_groups.metric=score",
      "algorithm.overlong_buffer.enable=true", "algorithm.overlong_buffer.len=4",
      "algorithm.use_kl_in_reward=true",       "algorithm.kl_ctrl.type=adaptive",
      "algorithm.kl_ctrl.kl_coef=0.1",         "algorithm.kl_ctrl.target_kl=1e-4",
      "algorithm.kl_ctrl.horizon=100",         "actor.clip_ratio_high=0.28"};
  const auto state = [&](const std::string& checkpoint) {
    return nlohmann::json::parse(
        read_all(fs::path(run_dir()) / "checkpoints" / checkpoint / "trainer" / "state.json"));
  };
  start_training(2, dapo);
  const auto result = finish(std::chrono::seconds(100));
  ASSERT_EQ(result.status, 0) << result.out << result.err;
  const std::string straight = weights("step_4");
  const auto half = state("step_2"), whole = state("step_4");
  EXPECT_NE(half.at("kl_coefficient"), 0.1);
  EXPECT_NE(half.at("kl_coefficient"), whole.at("kl_coefficient"));
  EXPECT_GE(half.at("data").at("taken"), 2 * 8);
  fs::remove_all(fs::path(run_dir()) / "checkpoints" / "step_4");

  start_training(2, dapo);
  const auto resumed = finish(std::chrono::seconds(100));
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_NE(resumed.out.find("resuming from "), std::string::npos) << resumed.out;
  EXPECT_TRUE(weights("step_4") == straight);
  EXPECT_EQ(state("step_4").at("kl_coefficient"), whole.at("kl_coefficient"));
  EXPECT_EQ(state("step_4").at("data").at("taken"), whole.at("data").at("taken"));
}

TEST_F(Training, ACheckpointOfOtherProblemsIsRefusedAndOneOfAnotherBatchSizeGoesOnAtItsPlace) {
  start_training(2, {"sft.warm_start=false", "trainer.total_training_steps=3"});
  ASSERT_EQ(finish(std::chrono::seconds(100)).status, 0);
  start_training(2, {"sft.warm_start=false", "data.arithmetic.max_operand=90"});
  const auto refused = finish(std::chrono::seconds(60));
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.err.find("the training problems are not those of "), std::string::npos) << refused.err;
  start_training(2, {"sft.warm_start=false", "data.train_batch_size=4"});
  ASSERT_EQ(finish(std::chrono::seconds(60)).status, 0);
  const auto state = nlohmann::json::parse(
      read_all(fs::path(run_dir()) / "checkpoints" / "step_4" / "trainer" / "state.json"));
  EXPECT_EQ(state.at("data").at("taken"), 3 * 8 + 4);
}

TEST_F(Training, TheSameSeedGivesTheSameNumbersOnAnyNumberOfRanksToRounding) {
  const auto rewards = [&] {
    std::vector<double> values;
    std::istringstream lines(read_all(fs::path(run_dir()) / "metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const auto metrics = nlohmann::json::parse(line).at("metrics");
      if (metrics.contains("sft/loss")) values.push_back(metrics.at("sft/loss"));
    }
    return values;
  };
  std::vector<std::vector<double>> by_ranks;
  for (const int ranks : {1, 3}) {
    start_training(ranks);
    const auto result = finish(std::chrono::seconds(100));
    ASSERT_EQ(result.status, 0) << result.err;
    by_ranks.push_back(rewards());
    fs::remove_all(run_dir());
  }
  ASSERT_EQ(by_ranks[0].size(), 6u);
  ASSERT_EQ(by_ranks[1].size(), 6u);
  for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(by_ranks[0][i], by_ranks[1][i], 1e-3 * by_ranks[0][i]);
}

TEST_F(Training, AKilledRankEndsTheRunAndIsNamed) {
  start_training(2, {"trainer.total_training_steps=100000"});
  ASSERT_TRUE(wait_for("out", "step 1/"));
  // The rank's own process: the guard's child.
  std::vector<pid_t> ranks;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const auto command = read_all(entry.path() / "cmdline");
    if (command.find("trireme-trainer") == std::string::npos || command.find("run") == std::string::npos)
      continue;
    if (read_all(entry.path() / "environ").find("TRIREME_RUN_DIR=" + run_dir()) != std::string::npos)
      ranks.push_back(std::stoi(entry.path().filename()));
  }
  ASSERT_EQ(ranks.size(), 2u);
  ::kill(ranks[1], SIGKILL);
  const auto result = finish(std::chrono::seconds(60));
  EXPECT_EQ(result.status, 3);
  EXPECT_NE(result.err.find("was killed by SIGKILL"), std::string::npos) << result.err;
}

TEST_F(Training, ADamagedCheckpointIsNamedAndNothingGoesOn) {
  start_training(2);
  ASSERT_EQ(finish(std::chrono::seconds(100)).status, 0);
  const auto damaged = fs::path(run_dir()) / "checkpoints" / "step_4" / "model.safetensors";
  {
    std::fstream file(damaged, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(5000);
    file.put('\x7f');
  }
  start_training(2, {"trainer.total_training_steps=6"});
  const auto result = finish(std::chrono::seconds(60));
  EXPECT_NE(result.status, 0);
  EXPECT_NE(result.err.find("model.safetensors"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace trireme::commands
