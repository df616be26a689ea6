// Whole runs judged by a reward model.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "runtime/observe/metrics.h"
#include "tests/launcher/commands/launch.h"

namespace trireme::commands {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

class RewardModelRuns : public LaunchTest {
 protected:
  static std::string golden(const std::string& name) {
    return source_folder() + "/tests/trainer/steps/goldens-reward-model/" + name;
  }
  Result train(const std::vector<std::string>& more, int ranks, const std::string& dir) {
    std::vector<std::string> arguments{"run", configuration(), "-n", std::to_string(ranks), "--run-dir",
                                       folder_ / dir, "sft.max_steps=4", "sft.stop_at_accuracy=0",
                                       "sft.optim.lr_warmup_steps=2", "data.arithmetic.num_val=16",
                                       "trainer.total_training_steps=2", "actor.optim.lr_warmup_steps=1",
                                       "data.train_batch_size=8", "rollout.n=4", "reward.format_only=0.1",
                                       "actor.parallel.reduce=exact"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    start(std::move(arguments));
    return finish(std::chrono::seconds(120));
  }
  std::string weights(const std::string& dir) const {
    return read_all(folder_ / dir / "checkpoints" / "step_2" / "model.safetensors");
  }
  // Of all steps and evaluations.
  std::vector<nlohmann::json> metrics(const std::string& dir) const {
    std::istringstream lines(read_all(folder_ / dir / "metrics.jsonl"));
    std::vector<nlohmann::json> all;
    for (std::string line; std::getline(lines, line);) {
      all.push_back(nlohmann::json::parse(line).at("metrics"));
      for (const auto& [name, value] : all.back().items()) EXPECT_TRUE(observe::is_documented(name)) << name;
    }
    return all;
  }
  std::vector<double> values(const std::string& dir, const std::string& name) const {
    std::vector<double> found;
    for (const auto& each : metrics(dir))
      if (each.contains(name)) found.push_back(each.at(name));
    return found;
  }
};

TEST_F(RewardModelRuns, SharedAndSeparateRanksGiveTheSameRewardsAndWeights) {
  const std::vector<std::string> model{"reward_model.path=" + golden("qwen2"), "reward_model.input=tokens",
                                       "reward_model.weight=0.5"};
  const Result shared = train(model, 2, "shared");
  ASSERT_EQ(shared.status, 0) << shared.out << shared.err;
  auto separate = model;
  for (const char* role : {"actor", "rollout", "reference"})
    separate.push_back(std::string("placement.") + role + "=0-1");
  separate.push_back("placement.reward_model=2");
  const Result apart = train(separate, 3, "separate");
  ASSERT_EQ(apart.status, 0) << apart.out << apart.err;
  EXPECT_FALSE(weights("shared").empty());
  EXPECT_EQ(weights("shared"), weights("separate"));
  ASSERT_EQ(values("shared", "reward/model/mean").size(), 2);
  for (const char* name : {"reward/model/max", "reward/model/min", "val-aux/arithmetic/model/mean@1",
                           "val-core/arithmetic/reward/mean@1", "val-core/arithmetic/acc/mean@1"})
    EXPECT_EQ(values("shared", name), values("separate", name)) << name;
  EXPECT_THAT(read_all(folder_ / "shared" / "logs" / "rank-0.log"),
              HasSubstr("reads the policy's tokens as they are"));
  // Something was judged: without the model, or with another weight, other weights come out.
  ASSERT_EQ(train({"reward_model.path=" + golden("qwen2"), "reward_model.input=tokens"}, 2, "heavier").status, 0);
  EXPECT_NE(weights("shared"), weights("heavier"));
}

TEST_F(RewardModelRuns, AheadOfTrainingItJudgesOnRolloutsSide) {
  std::vector<std::string> common{"reward_model.path=" + golden("qwen2"), "reward_model.input=tokens",
                                  "reward_model.weight=0.5", "placement.actor=0", "placement.reference=0",
                                  "rollout.steps_ahead=1"};
  const auto with = [&](const std::string& rollout, const std::string& judges) {
    auto all = common;
    all.push_back("placement.rollout=" + rollout);
    all.push_back("placement.reward_model=" + judges);
    return all;
  };
  const Result shared = train(with("1", "1"), 2, "shared");
  ASSERT_EQ(shared.status, 0) << shared.out << shared.err;
  const Result own = train(with("1", "2"), 3, "own");
  ASSERT_EQ(own.status, 0) << own.out << own.err;
  EXPECT_FALSE(weights("shared").empty());
  EXPECT_EQ(weights("shared"), weights("own"));
  for (const char* name : {"reward/model/max", "val-aux/arithmetic/model/mean@1", "training/staleness"})
    EXPECT_EQ(values("shared", name), values("own", name)) << name;
  const Result wrong = train(with("1", "0-1"), 2, "wrong");
  EXPECT_NE(wrong.status, 0);
  EXPECT_THAT(wrong.err, HasSubstr("name ranks of rollout for it, or ranks of its own"));
  common.back() = "rollout.stream=true";
  common.push_back("actor.ppo_mini_batch_size=2");
  EXPECT_THAT(train(with("1", "2"), 3, "stream").err, HasSubstr("judges a batch as a whole"));
}

TEST_F(RewardModelRuns, AModelAloneNeedsNoRuleAndTellsNoAccuracy) {
  const Result result =
      train({"reward_model.path=" + golden("llama"), "reward_model.input=tokens", "reward.name=none"}, 2, "run");
  ASSERT_EQ(result.status, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("reward before"));
  EXPECT_THAT(result.out, Not(HasSubstr("accuracy")));
  EXPECT_TRUE(values("run", "val-core/arithmetic/acc/mean@1").empty());
  EXPECT_EQ(values("run", "val-core/arithmetic/reward/mean@1"), values("run", "val-aux/arithmetic/model/mean@1"));
  for (const auto& step : metrics("run")) {
    if (step.contains("reward/model/mean")) {
      EXPECT_NEAR(step.at("critic/score/mean"), step.at("reward/model/mean"), 1e-9);
    }
  }
}

TEST_F(RewardModelRuns, RejectionSamplingLearnsWhatItLikes) {
  const Result result = train({"reward_model.path=" + golden("qwen3"), "reward_model.input=tokens",
                               "reward.name=none", "algorithm.name=rft"},
                              2, "run");
  ASSERT_EQ(result.status, 0) << result.out << result.err;
  EXPECT_EQ(values("run", "reward/model/mean").size(), 2);
}

// What is wrong is told with its place in the file, before anything starts.
TEST_F(RewardModelRuns, FoldersThatAreNoRewardModelAreRefusedWithTheirLine) {
  const auto refused = [&](const std::string& folder, const std::string& more = "") {
    const std::string path = file("run.toml", "[data]\ntask = \"arithmetic\"\n\n[reward]\nname = \"arithmetic\"\n"
                                              "[reward_model]\n" + more + "path = \"" + folder + "\"\n");
    start({"config", "check", path});
    const Result result = finish();
    EXPECT_EQ(result.status, 2);
    return result.out + result.err;
  };
  const auto changed = [&](const std::string& name, const std::function<void(nlohmann::json&)>& change) {
    const fs::path folder = folder_ / name;
    fs::copy(golden("qwen2"), folder);
    auto config = nlohmann::json::parse(read_all(folder / "config.json"));
    change(config);
    std::ofstream(folder / "config.json") << config.dump();
    return folder.string();
  };
  EXPECT_THAT(refused(folder_ / "nowhere"), HasSubstr("run.toml:7: reward_model.path: there is no folder"));
  EXPECT_THAT(refused(golden("qwen2")), HasSubstr("run.toml:7: reward_model.path: " + golden("qwen2") +
                                                  " holds no tokenizer.json"));
  const std::string decoder = source_folder() + "/tests/trainer/weights/goldens-decoder/qwen2-group7-tied";
  EXPECT_THAT(refused(decoder), HasSubstr("is a language model (Qwen2ForCausalLM), without a head that scores"));
  EXPECT_THAT(refused(changed("bert", [](auto& c) { c["architectures"] = {"BertForSequenceClassification"}; })),
              HasSubstr("has the architecture [\"BertForSequenceClassification\"], which is not supported"));
  EXPECT_THAT(refused(changed("two", [](auto& c) { c["id2label"] = {{"0", "bad"}, {"1", "good"}}; })),
              HasSubstr("has 2 labels (id2label in config.json): a reward model has one"));
  const std::string headless = changed("headless", [](auto&) {});
  fs::copy_file(decoder + "/model.safetensors", headless + "/model.safetensors",
                fs::copy_options::overwrite_existing);
  EXPECT_THAT(refused(headless, "input = \"tokens\"\n"), HasSubstr("run.toml:8: reward_model.path: " + headless +
                                                                   " has no score.weight"));
  start({"config", "check", configuration(), "reward.name=none"});
  EXPECT_THAT(finish().err, HasSubstr("reward.name = \"none\" judges nothing"));
}

}  // namespace
}  // namespace trireme::commands
