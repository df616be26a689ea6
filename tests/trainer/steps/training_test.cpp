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
  for (std::string line; std::getline(lines, line); ++steps) {
    const auto metrics = nlohmann::json::parse(line).at("metrics");
    for (const auto& [name, value] : metrics.items()) {
      EXPECT_TRUE(observe::is_documented(name)) << name;
      EXPECT_TRUE(value.is_number()) << name;
    }
  }
  EXPECT_GE(steps, 10);
}

TEST_F(Training, StagesOfAPipelineEndInAPlainRunsBits) {
  start_training(2, {"actor.parallel.reduce=exact"});
  auto result = finish(std::chrono::seconds(200));
  ASSERT_EQ(result.status, 0) << result.out << result.err;
  const std::string after_sft = weights("sft"), straight = weights("step_4");
  ASSERT_FALSE(straight.empty());
  fs::remove_all(run_dir());
  start_training(2, {"actor.parallel.reduce=exact", "actor.parallel.pp=2", "reference.parallel.pp=2"});
  result = finish(std::chrono::seconds(200));
  ASSERT_EQ(result.status, 0) << result.out << result.err;
  EXPECT_TRUE(weights("sft") == after_sft);
  EXPECT_TRUE(weights("step_4") == straight);
}

// In bf16 masters, moments, the reference, the layers' inputs and the KV cache are all elsewhere at times; a
// run that is resumed too.
TEST_F(Training, WhatIsOffloadedEndsInAPlainRunsBits) {
  const std::vector<std::string> offload{"actor.param_offload=true",        "actor.optimizer_offload=true",
                                         "reference.param_offload=true",    "rollout.free_cache_engine=true",
                                         "model.enable_activation_offload=true"};
  for (const std::string stage : {"0", "1", "2", "3"}) {
    std::vector<std::string> more{"model.dtype=bf16", "actor.parallel.zero_stage=" + stage,
                                  "model.enable_gradient_checkpointing=true", "actor.ppo_mini_batch_size=4"};
    if (stage == "1") more.push_back("placement.rollout=0");  // reads the weights of one of two actor ranks
    start_training(2, more);
    auto result = finish(std::chrono::seconds(200));
    ASSERT_EQ(result.status, 0) << result.out << result.err;
    const std::string after_sft = weights("sft"), straight = weights("step_4");
    ASSERT_FALSE(straight.empty());
    fs::remove_all(run_dir());
    more.insert(more.end(), offload.begin(), offload.end());
    start_training(2, more);
    result = finish(std::chrono::seconds(200));
    ASSERT_EQ(result.status, 0) << result.out << result.err;
    EXPECT_TRUE(weights("sft") == after_sft);
    EXPECT_TRUE(weights("step_4") == straight) << "zero_stage " << stage;
    EXPECT_TRUE(fs::is_empty(fs::path(run_dir()) / "offload"));
    fs::remove_all(fs::path(run_dir()) / "checkpoints" / "step_4");
    start_training(2, more);
    result = finish(std::chrono::seconds(200));
    ASSERT_EQ(result.status, 0) << result.out << result.err;
    EXPECT_TRUE(weights("step_4") == straight) << "resumed, zero_stage " << stage;
    fs::remove_all(run_dir());
  }
}

TEST_F(Training, ACriticThatIsOffloadedEndsInAPlainRunsBits) {
  std::vector<std::string> ppo{"algorithm.adv_estimator=gae", "critic.optim.lr=1e-3", "actor.ppo_epochs=2"};
  start_training(2, ppo);
  auto result = finish(std::chrono::seconds(100));
  ASSERT_EQ(result.status, 0) << result.out << result.err;
  const std::string actor = weights("step_4"), critic = weights("step_4/critic");
  fs::remove_all(run_dir());
  ppo.insert(ppo.end(), {"critic.param_offload=true", "critic.optimizer_offload=true",
                         "actor.param_offload=true", "run.offload_dir=" + (folder_ / "parked").string()});
  start_training(2, ppo);
  result = finish(std::chrono::seconds(100));
  ASSERT_EQ(result.status, 0) << result.out << result.err;
  EXPECT_NE(result.err.find("actor.param_offload has no effect"), std::string::npos) << result.err;
  EXPECT_TRUE(fs::is_empty(folder_ / "parked"));
  EXPECT_TRUE(weights("step_4") == actor);
  EXPECT_TRUE(weights("step_4/critic") == critic);
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

// A batch system may warn at any time, also while the ranks still load.
TEST_F(Training, AWarningAtTheVeryStartIsObeyedAfterAStep) {
  for (const int milliseconds : {0, 20, 60, 150, 300, 600}) {
    fs::remove_all(run_dir());
    fs::remove(folder_ / "err");
    start_training(2, {"trainer.total_training_steps=2000", "trainer.save_freq=-1"});
    ASSERT_TRUE(wait_for("err", "run folder")) << read_all(folder_ / "err");
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    send(SIGUSR1);
    const auto result = finish(std::chrono::seconds(100));
    ASSERT_EQ(result.status, 75) << milliseconds << " ms: " << result.err;
    EXPECT_FALSE(fs::is_empty(fs::path(run_dir()) / "checkpoints"));
  }
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

// The critic begins with what the warm start has left, learns on a rank of its own, and goes on from a
// checkpoint with the same bits: in one that it wrote, and in one from before its first update.
TEST_F(Training, PpoGoesOnFromACheckpointWithItsCritic) {
  const std::vector<std::string> ppo{
      "algorithm.adv_estimator=gae", "placement.critic=1",      "critic.optim.lr=1e-3",
      "actor.ppo_epochs=2",          "trainer.critic_warmup=2", "actor.loss_agg_mode=seq-mean-token-mean"};
  const auto checkpoints = fs::path(run_dir()) / "checkpoints";
  start_training(2, ppo);
  const auto result = finish(std::chrono::seconds(100));
  ASSERT_EQ(result.status, 0) << result.out << result.err;
  EXPECT_NE(result.out.find("the critic begins with " + (checkpoints / "sft").string()), std::string::npos)
      << result.out;
  const std::string straight = weights("step_4"), critic = weights("step_4/critic");
  ASSERT_FALSE(critic.empty());
  EXPECT_FALSE(fs::exists(checkpoints / "sft" / "critic"));
  EXPECT_TRUE(fs::exists(checkpoints / "step_2" / "critic" / "config.json"));
  std::istringstream lines(read_all(fs::path(run_dir()) / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const auto metrics = nlohmann::json::parse(line).at("metrics");
    for (const auto& [name, value] : metrics.items()) EXPECT_TRUE(observe::is_documented(name)) << name;
  }

  for (const char* left : {"step_2", "sft"}) {
    for (const auto& entry : fs::directory_iterator(checkpoints))
      if (const auto name = entry.path().filename(); name != "sft" && name != left) fs::remove_all(entry);
    start_training(2, ppo);
    const auto resumed = finish(std::chrono::seconds(100));
    ASSERT_EQ(resumed.status, 0) << resumed.err;
    EXPECT_NE(resumed.out.find("resuming from " + (checkpoints / left).string()), std::string::npos)
        << resumed.out;
    EXPECT_TRUE(weights("step_4") == straight) << left;
    EXPECT_TRUE(weights("step_4/critic") == critic) << left;
  }
}

// Supervised fine-tuning, then preferences; the reference is the model in between, after a resumption too.
TEST_F(Training, DpoGoesOnFromACheckpointInTheSameBits) {
  const std::vector<std::string> dpo{"algorithm.name=dpo", "actor.use_kl_loss=false",
                                     "trainer.total_training_steps=4", "actor.optim.lr=1e-3"};
  start_training(2, dpo);
  const auto result = finish(std::chrono::seconds(100));
  ASSERT_EQ(result.status, 0) << result.out << result.err;
  EXPECT_NE(result.out.find("step 4/4  loss "), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("held-out pairs told apart"), std::string::npos) << result.out;
  const auto closing = summary();
  EXPECT_EQ(closing.at("eval_after_sft_margin"), 0.0);
  EXPECT_NE(closing.at("eval_after_margin"), 0.0);
  std::istringstream lines(read_all(fs::path(run_dir()) / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const auto metrics = nlohmann::json::parse(line).at("metrics");
    for (const auto& [name, value] : metrics.items()) EXPECT_TRUE(observe::is_documented(name)) << name;
  }
  const std::string straight = weights("step_4");
  fs::remove_all(fs::path(run_dir()) / "checkpoints" / "step_4");
  start_training(2, dpo);
  const auto resumed = finish(std::chrono::seconds(100));
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_NE(resumed.out.find("resuming from "), std::string::npos) << resumed.out;
  EXPECT_TRUE(weights("step_4") == straight);
}

// Files of pairs, and nobody who generates.
TEST_F(Training, DpoLearnsFromFilesOfPairs) {
  std::string rows;
  for (int i = 0; i < 40; ++i)
    rows += R"({"prompt":")" + std::to_string(i) + R"( is","chosen":" small","rejected":" large"})" + "\n";
  const std::vector<std::string> dpo{"algorithm.name=dpo",
                                     "actor.use_kl_loss=false",
                                     "sft.warm_start=false",
                                     "sft.bare_batch_size=0",
                                     "data.task=files",
                                     "data.train_files=" + file("pairs.jsonl", rows),
                                     "trainer.total_training_steps=12",
                                     "actor.optim.lr=3e-3",
                                     "placement.actor=0",
                                     "placement.reference=1"};
  start_training(2, dpo);
  const auto result = finish(std::chrono::seconds(100));
  ASSERT_EQ(result.status, 0) << result.out << result.err;
  EXPECT_EQ(summary().at("eval_before_margin"), 0.0);
  EXPECT_EQ(summary().at("eval_after_pairs"), 1.0);
  EXPECT_FALSE(summary().contains("eval_after"));

  file("pairs.jsonl", R"({"prompt":"1 is","chosen":" small"})" + std::string("\n"));
  start_training(2, dpo);
  const auto refused = finish(std::chrono::seconds(60));
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.err.find("pairs.jsonl:1: no column 'rejected'"), std::string::npos) << refused.err;
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
  const auto apart_from_rollout = [&] {
    double most = 0.0;
    std::istringstream lines(read_all(fs::path(run_dir()) / "metrics.jsonl"));
    for (std::string line; std::getline(lines, line);)
      most = std::max(
          most, nlohmann::json::parse(line).at("metrics").value("training/rollout_probs_diff_max", 0.0));
    return most;
  };
  // The last one shares out sequences of which a rank has no room for a half.
  const std::vector<std::pair<int, std::vector<std::string>>> runs{
      {1, {}},
      {3, {}},
      {4, {"actor.parallel.cp=4", "reference.parallel.cp=4", "actor.ppo_max_token_len_per_rank=21"}}};
  std::vector<std::vector<double>> by_ranks;
  for (const auto& [ranks, overrides] : runs) {
    start_training(ranks, overrides);
    const auto result = finish(std::chrono::seconds(200));
    ASSERT_EQ(result.status, 0) << result.err;
    by_ranks.push_back(rewards());
    EXPECT_EQ(apart_from_rollout(), 0.0);
    fs::remove_all(run_dir());
  }
  for (const auto& losses : by_ranks) {
    ASSERT_EQ(losses.size(), 6u);
    for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(by_ranks[0][i], losses[i], 1e-3 * by_ranks[0][i]);
  }
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
