// Whole runs whose rollout goes ahead, by the real programs: resumed, replayed, broken.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "runtime/observe/metrics.h"
#include "tests/launcher/commands/launch.h"

namespace trireme::commands {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class AheadRuns : public LaunchTest {
 protected:
  // The quickstart in a few steps, without its warm start; rollout on the last rank.
  Result train(const std::string& dir, const std::vector<std::string>& more, int ranks = 2) {
    fs::remove(folder_ / "out");
    start_training(dir, more, ranks);
    return finish(std::chrono::seconds(100));
  }
  void start_training(const std::string& dir, const std::vector<std::string>& more, int ranks = 2) {
    std::vector<std::string> arguments{"run", configuration(), "-n", std::to_string(ranks), "--run-dir",
                                       folder_ / dir, "sft.warm_start=false", "data.arithmetic.num_val=16",
                                       "trainer.total_training_steps=5", "actor.optim.lr_warmup_steps=1",
                                       "data.train_batch_size=6", "rollout.n=4", "actor.optim.lr=1e-3",
                                       // What a model that knows nothing does now and then.
                                       "reward.format.weight=1", "reward.format.pattern=.*[aeiou].*",
                                       "trainer.save_freq=2", "trainer.test_freq=3",
                                       "placement.actor=0", "placement.reference=0",
                                       ranks == 2 ? "placement.rollout=1" : "placement.rollout=1-2"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    start(std::move(arguments));
  }
  std::string weights(const std::string& dir, int step = 5) const {
    return read_all(folder_ / dir / "checkpoints" / fmt::format("step_{}", step) / "model.safetensors");
  }
  // Of one metric, in each step that has it.
  std::vector<double> values(const std::string& dir, const std::string& name) const {
    std::istringstream lines(read_all(folder_ / dir / "metrics.jsonl"));
    std::vector<double> found;
    for (std::string line; std::getline(lines, line);) {
      const auto metrics = nlohmann::json::parse(line).at("metrics");
      for (const auto& [known, value] : metrics.items()) EXPECT_TRUE(observe::is_documented(known)) << known;
      if (metrics.contains(name)) found.push_back(metrics.at(name));
    }
    return found;
  }
  // The process that is a rank of the run in folder "run".
  pid_t trainer_of(int rank) const {
    for (const auto& entry : fs::directory_iterator("/proc")) {
      std::error_code none;
      if (fs::read_symlink(entry.path() / "exe", none).filename() != "trireme-trainer") continue;
      const std::string environment = read_all(entry.path() / "environ");
      const std::string own = fmt::format("TRIREME_RANK={}", rank) + '\0',
                        run = "TRIREME_RUN_DIR=" + run_dir() + '\0';
      if (environment.find(own) != std::string::npos && environment.find(run) != std::string::npos)
        return std::stoi(entry.path().filename());
    }
    return -1;
  }
  nlohmann::json batches(const std::string& dir, int step) const {
    return nlohmann::json::parse(read_all(folder_ / dir / "checkpoints" / fmt::format("step_{}", step) /
                                          "trainer" / "state.json"))
        .value("batches", nlohmann::json::array());
  }
  std::string function(const std::string& body) const {
    return "reward.function.path=" + file("reward.py", "def compute_score(**arguments):\n" + body);
  }
};

TEST_F(AheadRuns, WithoutStepsAheadRolloutsRanksDoNotMatter) {
  ASSERT_EQ(train("apart", {}).status, 0);
  ASSERT_EQ(train("together", {"placement.rollout=0"}, 1).status, 0);
  ASSERT_FALSE(weights("apart").empty());
  EXPECT_TRUE(weights("apart") == weights("together"));
}

TEST_F(AheadRuns, ARunGoesOnFromItsCheckpointInTheSameBits) {
  for (const int ahead : {1, 2}) {
    const std::string dir = fmt::format("by_{}", ahead), key = fmt::format("rollout.steps_ahead={}", ahead);
    const Result whole = train(dir, {key});
    ASSERT_EQ(whole.status, 0) << whole.out << whole.err;
    EXPECT_THAT(whole.out, HasSubstr(fmt::format("rollout is ahead by {} step", ahead)));
    const std::string straight = weights(dir);
    ASSERT_FALSE(straight.empty());
    const auto staleness = values(dir, "training/staleness"), lengths = values(dir, "response_length/mean");
    const double last = ahead;
    EXPECT_THAT(staleness, ElementsAre(0, 1, last, last, last));
    EXPECT_EQ(values(dir, "trainer/idle_ratio").size(), 5u);
    EXPECT_EQ(values(dir, "timing_s/wait_prev_gen").size(), 5u);
    // Nothing is generated for steps that do not come.
    EXPECT_EQ(batches(dir, 2).size(), static_cast<size_t>(ahead));
    EXPECT_EQ(batches(dir, 4).size(), 1u);
    EXPECT_EQ(batches(dir, 5).size(), 0u);

    // From step 2 on, by as many ranks and by more.
    for (const int ranks : {2, 3}) {
      for (const int step : {4, 5}) fs::remove_all(folder_ / dir / "checkpoints" / fmt::format("step_{}", step));
      const Result resumed = train(dir, {key}, ranks);
      ASSERT_EQ(resumed.status, 0) << resumed.out << resumed.err;
      EXPECT_THAT(resumed.out, HasSubstr("resuming from "));
      EXPECT_TRUE(weights(dir) == straight) << ranks << " ranks, ahead by " << ahead;
    }
    // What is learned from batches of the checkpoint is told as it was.
    const auto again = values(dir, "response_length/mean");
    ASSERT_EQ(again.size(), 11u);
    for (size_t step = 2; step < 5; ++step) {
      EXPECT_EQ(again[step], lengths[step]);
      EXPECT_EQ(again[step + 3], lengths[step]);
      EXPECT_NEAR(again[step + 6], lengths[step], 1e-9);
    }
  }
}

TEST_F(AheadRuns, StreamedMiniBatchesEndInTheSameBits) {
  const std::vector<std::string> parts{"actor.ppo_mini_batch_size=2", "rollout.max_num_seqs=4"};
  ASSERT_EQ(train("whole", parts).status, 0);
  auto streamed = parts;
  streamed.push_back("rollout.stream=true");
  const Result straight = train("streamed", streamed, 3);
  ASSERT_EQ(straight.status, 0) << straight.out << straight.err;
  EXPECT_THAT(straight.out, HasSubstr("training learns from each mini-batch of 2 prompts as rollout finishes it"));
  ASSERT_FALSE(weights("whole").empty());
  EXPECT_TRUE(weights("whole") == weights("streamed"));
  EXPECT_EQ(values("streamed", "trainer/idle_ratio").size(), 5u);
  EXPECT_EQ(batches("streamed", 2).size(), 0u);

  // From a checkpoint on, without it and with it.
  for (const auto& how : {parts, streamed}) {
    for (const int step : {4, 5}) fs::remove_all(folder_ / "streamed" / "checkpoints" / fmt::format("step_{}", step));
    ASSERT_EQ(train("streamed", how).status, 0);
    EXPECT_TRUE(weights("whole") == weights("streamed"));
  }
  // A judge that fails for good ends the run on both sides, with its words.
  auto broken = streamed;
  broken.insert(broken.end(), {function("    raise ValueError('no judge today')\n"), "reward.format.weight=0",
                               "reward.format.pattern=", "reward.scorer.on_failure=stop"});
  const Result failed = train("broken", broken);
  EXPECT_NE(failed.status, 0);
  EXPECT_THAT(failed.out + failed.err, HasSubstr("no judge today"));
}

TEST_F(AheadRuns, ARunThatIsStoppedGoesOnInTheSameBits) {
  const std::vector<std::string> ahead{"rollout.steps_ahead=1", "trainer.total_training_steps=80",
                                       "trainer.save_freq=-1", "trainer.test_freq=-1"};
  ASSERT_EQ(train("straight", ahead).status, 0);
  fs::remove(folder_ / "out");
  start_training("stopped", ahead);
  ASSERT_TRUE(wait_for("out", "step 1/80")) << read_all(folder_ / "err");
  send(SIGTERM);
  ASSERT_EQ(finish(std::chrono::seconds(60)).status, 75);
  const Result resumed = train("stopped", ahead);
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_THAT(resumed.out, HasSubstr("resuming from "));
  EXPECT_TRUE(weights("stopped", 80) == weights("straight", 80));
}

// Another steps_ahead at resumption: batches that are too old for it are generated again, by newer weights.
TEST_F(AheadRuns, StepsAheadMayChangeAtACheckpoint) {
  ASSERT_EQ(train("run", {"rollout.steps_ahead=2", "trainer.total_training_steps=4"}).status, 0);
  fs::remove_all(folder_ / "run" / "checkpoints" / "step_4");
  fs::copy(folder_ / "run", folder_ / "more", fs::copy_options::recursive);
  const Result less = train("run", {"rollout.steps_ahead=0"});
  ASSERT_EQ(less.status, 0) << less.out << less.err;
  EXPECT_THAT(less.out, HasSubstr("2 of the 2 batches in the checkpoint are generated again"));
  EXPECT_EQ(values("run", "training/staleness").size(), 4u);  // of the first run
  // Without steps ahead, and so without batches on the way, from the same checkpoint.
  ASSERT_EQ(train("other", {"rollout.steps_ahead=0",
                            "trainer.resume=" + (folder_ / "more" / "checkpoints" / "step_2").string()})
                .status,
            0);
  EXPECT_TRUE(weights("run") == weights("other"));
  const Result more = train("more", {"rollout.steps_ahead=3"});
  ASSERT_EQ(more.status, 0) << more.out << more.err;
  EXPECT_THAT(values("more", "training/staleness"), ElementsAre(0, 1, 2, 2, 2, 2, 2));
}

// A reward of chance, heard again from the journal.
TEST_F(AheadRuns, AJournalMakesARunAgain) {
  const std::vector<std::string> chance{"rollout.steps_ahead=1", function("    import random\n    return random.random()\n")};
  ASSERT_EQ(train("first", chance).status, 0);
  ASSERT_EQ(train("other", chance).status, 0);
  EXPECT_FALSE(weights("first") == weights("other"));
  auto again = chance;
  again.push_back("reward.scorer.replay=" + (folder_ / "first" / "journal" / "rewards").string());
  const Result result = train("again", again, 3);
  ASSERT_EQ(result.status, 0) << result.out << result.err;
  EXPECT_TRUE(weights("first") == weights("again"));
  for (const double replayed : values("again", "reward/replayed")) EXPECT_EQ(replayed, 24);
}

// An error on one side while the other works: the run ends with that error.
TEST_F(AheadRuns, AnErrorOnOneSideEndsTheRunWithItsMessage) {
  const std::string marks = (folder_ / "calls").string();
  const Result rollout = train("run", {"rollout.steps_ahead=1", "reward.scorer.retries=0", function(fmt::format(R"(
    with open({:?}, "a") as calls:
        calls.write("x")
        if calls.tell() > 70: raise ValueError("no more")
    return 1.0
)", marks))});
  EXPECT_EQ(rollout.status, 1) << rollout.out << rollout.err;
  EXPECT_THAT(rollout.out + rollout.err, HasSubstr("ValueError: no more"));
  EXPECT_THAT(rollout.out, HasSubstr("step 1/5"));
}

TEST_F(AheadRuns, ARankThatIsKilledEndsTheOtherSideInTheMiddleOfItsWork) {
  const std::string marks = (folder_ / "calls").string();
  start_training("run", {"rollout.steps_ahead=1", "reward.scorer.timeout_s=1000", function(fmt::format(R"(
    import time
    with open({:?}, "a") as calls:
        calls.write("x")
        if calls.tell() > 44: time.sleep(900)
    return 1.0
)", marks))});
  ASSERT_TRUE(wait_until([&] { return fs::exists(marks) && fs::file_size(marks) > 44; }));
  const pid_t training = trainer_of(0);
  ASSERT_GT(training, 0);
  ::kill(training, SIGKILL);
  const Result result = finish(std::chrono::seconds(60));  // or the reward would be waited for
  EXPECT_GT(result.status, 0) << result.out << result.err;
  EXPECT_THAT(result.err, HasSubstr("was killed by SIGKILL"));
}

TEST_F(AheadRuns, RanksThatWouldDoBothAreRefusedBeforeTheRun) {
  const Result result = train("run", {"rollout.steps_ahead=1", "placement.rollout=0-1"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.out + result.err, HasSubstr("rollout.steps_ahead = 1 generates while the others learn"));
  EXPECT_THAT(result.out + result.err, HasSubstr("placement.rollout = \"0-1\", placement.actor = \"0\""));
}

}  // namespace
}  // namespace trireme::commands
