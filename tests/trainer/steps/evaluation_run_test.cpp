// Whole runs whose reward is a sum of several, and whose evaluations ask for several responses: what they
// write, and what `trireme samples` shows of it.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "runtime/observe/metrics.h"
#include "tests/launcher/commands/launch.h"

namespace trireme::commands {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class EvaluationRun : public LaunchTest {
 protected:
  std::string train(int ranks, std::vector<std::string> more) {
    std::vector<std::string> arguments{"run",
                                       configuration(),
                                       "-n",
                                       std::to_string(ranks),
                                       "--run-dir",
                                       run_dir(),
                                       "sft.warm_start=false",
                                       "data.arithmetic.num_val=10",
                                       "trainer.total_training_steps=2",
                                       "actor.optim.lr_warmup_steps=1",
                                       "data.train_batch_size=4",
                                       "rollout.n=2",
                                       "rollout.val_kwargs.n=4",
                                       "rollout.val_kwargs.temperature=1.0",
                                       "reward.weight=0.7",
                                       "reward.format.weight=0.2",
                                       "reward.format.pattern=[^a]*",
                                       "reward.repetition.weight=0.1",
                                       "reward.cosine.weight=0.5"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    start(std::move(arguments));
    const auto result = finish(std::chrono::seconds(100));
    EXPECT_EQ(result.status, 0) << result.out << result.err;
    return result.out;
  }
  std::string samples(const std::string& step) const {
    return read_all(fs::path(run_dir()) / "samples" / ("step_" + step + ".jsonl"));
  }
  std::string shown(std::vector<std::string> more, int status = 0) {
    std::vector<std::string> arguments{"samples", run_dir()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    start(std::move(arguments));
    const auto result = finish(std::chrono::seconds(30));
    EXPECT_EQ(result.status, status) << result.err;
    return result.out + result.err;
  }
};

TEST_F(EvaluationRun, WritesMetricsAndSamplesOfSeveralResponsesAndComponents) {
  const std::string out = train(2, {});
  EXPECT_THAT(out, HasSubstr("of 40 responses to 10 held-out problems"));
  std::istringstream metric_lines(read_all(fs::path(run_dir()) / "metrics.jsonl"));
  std::map<std::string, double> metrics;
  for (std::string line; std::getline(metric_lines, line);) {
    const auto json = nlohmann::json::parse(line);
    for (const auto& [name, value] : json.at("metrics").items()) {
      EXPECT_TRUE(observe::is_documented(name)) << name;
      metrics[name] = value.get<double>();
    }
  }
  for (const char* name :
       {"val-core/arithmetic/acc/mean@4", "val-core/arithmetic/reward/best@4/mean",
        "val-aux/arithmetic/reward/worst@2/std", "val-aux/arithmetic/format/mean@4", "reward/answer/mean",
        "reward/format/mean", "reward/repetition/mean", "reward/cosine/mean"})
    EXPECT_TRUE(metrics.contains(name)) << name;

  // The metrics are what the samples say.
  std::istringstream lines(samples("0"));
  std::vector<nlohmann::json> all;
  for (std::string line; std::getline(lines, line);) all.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(all.size(), 40U);
  for (size_t i = 0; i < all.size(); ++i) {
    const auto& sample = all[i];
    EXPECT_EQ(sample.at("sample"), i % 4);
    EXPECT_EQ(sample.at("step"), 0);
    const auto& parts = sample.at("components");
    EXPECT_NEAR(sample.at("score").get<double>(),
                0.7 * parts.at("answer").get<double>() + 0.2 * parts.at("format").get<double>() +
                    0.1 * parts.at("repetition").get<double>() + 0.5 * parts.at("cosine").get<double>(),
                1e-12);
  }
  EXPECT_NE(samples("2"), "");

  EXPECT_THAT(shown({}), HasSubstr("5 of 40 samples of step 2"));
  EXPECT_THAT(shown({"--step", "0", "-n", "2"}), HasSubstr("2 of 40 samples of step 0"));
  EXPECT_THAT(shown({"--step", "7"}, 2), HasSubstr("there are those of 0, 2"));
  EXPECT_THAT(shown({"--grep", "no such text"}), HasSubstr("0 of 0 samples"));
  std::istringstream sorted(shown({"--worst", "--json", "-n", "0"}));
  double last = -100;
  int count = 0;
  for (std::string line; std::getline(sorted, line); ++count) {
    const double score = nlohmann::json::parse(line).at("score").get<double>();
    EXPECT_GE(score, last);
    last = score;
  }
  EXPECT_EQ(count, 40);
}

TEST_F(EvaluationRun, AsksAlikeOnAnyNumberOfRanks) {
  (void)train(1, {"trainer.total_training_steps=1"});
  const std::string one = samples("0");
  fs::remove_all(run_dir());
  (void)train(2, {"trainer.total_training_steps=1", "trainer.log_val_generations=3"});
  const std::string two = samples("0");
  EXPECT_FALSE(two.empty());
  EXPECT_EQ(one.substr(0, two.size()), two);
  EXPECT_EQ(std::ranges::count(two, '\n'), 12);
}

}  // namespace
}  // namespace trireme::commands
