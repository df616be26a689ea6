// Whole runs judged by code of the user's own.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include <atomic>
#include <optional>
#include <regex>

#include "runtime/observe/metrics.h"
#include "tests/launcher/commands/launch.h"
#include "tests/trainer/rewards/http_server.h"

namespace trireme::commands {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

// What reward.name = "arithmetic" finds, in Python.
constexpr const char* kArithmetic = R"(
import re
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    whole = lambda text: int(text) if re.fullmatch("-?[0-9]+", text) else None
    after = lambda text: whole(re.split("[=;:]", text)[-1].strip())
    answer = after(solution_str) if re.search("[=;:]", solution_str) else None
    right = answer is not None and answer == after(ground_truth)
    return {"score": 1.0 if right else 0.1 if answer is not None else 0.0, "acc": right,
            "letters": len(solution_str)}
)";

class RewardRuns : public LaunchTest {
 protected:
  Result train(const std::vector<std::string>& more, int ranks = 2, const std::string& dir = "run") {
    std::vector<std::string> arguments{"run", configuration(), "-n", std::to_string(ranks), "--run-dir",
                                       folder_ / dir, "sft.max_steps=4", "sft.stop_check_from=2",
                                       "sft.stop_check_freq=2", "sft.stop_check_samples=8",
                                       "sft.optim.lr_warmup_steps=2", "data.arithmetic.num_val=16",
                                       "trainer.total_training_steps=2", "actor.optim.lr_warmup_steps=1",
                                       "data.train_batch_size=8", "rollout.n=4", "reward.format_only=0.1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    start(std::move(arguments));
    return finish(std::chrono::seconds(120));
  }
  std::string weights(const std::string& dir) const {
    return read_all(folder_ / dir / "checkpoints" / "step_2" / "model.safetensors");
  }
  std::vector<double> evaluations(const std::string& dir) const {
    std::istringstream lines(read_all(folder_ / dir / "metrics.jsonl"));
    std::vector<double> rewards;
    for (std::string line; std::getline(lines, line);)
      if (const auto metrics = nlohmann::json::parse(line).at("metrics");
          metrics.contains("val-core/arithmetic/reward/mean@1"))
        rewards.push_back(metrics.at("val-core/arithmetic/reward/mean@1"));
    return rewards;
  }
  // The last that has `metric`.
  nlohmann::json last_step(const std::string& dir = "run", const char* metric = "reward/errors") const {
    std::istringstream lines(read_all(folder_ / dir / "metrics.jsonl"));
    nlohmann::json last;
    for (std::string line; std::getline(lines, line);) {
      const auto metrics = nlohmann::json::parse(line).at("metrics");
      for (const auto& [name, value] : metrics.items()) EXPECT_TRUE(observe::is_documented(name)) << name;
      if (metrics.contains(metric)) last = metrics;
    }
    return last;
  }
};

TEST_F(RewardRuns, AFunctionThatJudgesAsARuleDoesGivesTheRulesWeights) {
  const std::string path = file("reward.py", kArithmetic);
  ASSERT_EQ(train({}, 2, "rule").status, 0);
  const Result function = train({"reward.function.path=" + path, "reward.scorer.num_workers=2"}, 2, "function");
  ASSERT_EQ(function.status, 0) << function.out << function.err;
  EXPECT_EQ(weights("rule"), weights("function"));
  const auto step = last_step("function");
  EXPECT_GT(step.at("reward/letters/mean"), 0.0);
  EXPECT_EQ(step.at("reward/errors"), 0.0);
}

TEST_F(RewardRuns, FunctionsThatFailAreCountedOrEndTheRun) {
  const std::string path = file("reward.py", R"(
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    if len(solution_str) % 2: raise ValueError("odd")
    return 1.0
)");
  const Result goes_on = train({"reward.function.path=" + path, "reward.scorer.on_failure=default",
                                "reward.scorer.default_score=0.25", "reward.scorer.retries=0"});
  ASSERT_EQ(goes_on.status, 0) << goes_on.out << goes_on.err;
  const auto step = last_step();
  EXPECT_EQ(step.at("reward/errors"), step.at("reward/defaults"));
  const Result stops = train({"reward.function.path=" + path}, 2, "stops");
  EXPECT_EQ(stops.status, 1);
  EXPECT_THAT(stops.out + stops.err, HasSubstr("the reward function failed 2 times on one response: ValueError: odd"));
}

TEST_F(RewardRuns, AFunctionThatCannotBeImportedEndsTheRunBeforeItsFirstStep) {
  const std::string path = file("reward.py", "import no_such_module");
  const Result result = train({"reward.function.path=" + path});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.out + result.err, HasSubstr("No module named 'no_such_module'"));
  EXPECT_THAT(result.out, Not(HasSubstr("step 1/")));
}

// A function of chance, and the same run again by its journal, on another number of ranks.
TEST_F(RewardRuns, AJournalMakesARunAgain) {
  const std::string function = "reward.function.path=" + file("reward.py", R"(
import random
def compute_score(**arguments): return random.random()
)");
  const std::vector<std::string> exact{function, "actor.parallel.reduce=exact"};
  ASSERT_EQ(train(exact, 2, "first").status, 0);
  ASSERT_EQ(train(exact, 2, "other").status, 0);
  EXPECT_NE(weights("first"), weights("other"));
  auto again = exact;
  again.push_back("reward.scorer.replay=" + (folder_ / "first" / "journal" / "rewards").string());
  const Result result = train(again, 1, "again");
  ASSERT_EQ(result.status, 0) << result.out << result.err;
  EXPECT_EQ(weights("first"), weights("again"));
  EXPECT_FALSE(evaluations("first").empty());
  EXPECT_EQ(evaluations("first"), evaluations("again"));
  EXPECT_NE(evaluations("first"), evaluations("other"));
  EXPECT_EQ(last_step("again").at("reward/replayed"), 32);
}

// The rule, asked over HTTP by two ranks; the service fails now and then, and is asked again.
TEST_F(RewardRuns, AServiceThatJudgesAsARuleDoesGivesTheRulesWeights) {
  const auto number_behind = [](const std::string& text) -> std::optional<std::string> {
    const auto mark = text.find_last_of("=;:");
    if (mark == std::string::npos) return std::nullopt;
    std::smatch found;
    const std::string rest = text.substr(mark + 1);
    if (!std::regex_match(rest, found, std::regex("\\s*(-?[0-9]+)\\s*"))) return std::nullopt;
    return std::to_string(std::stoll(found[1]));
  };
  std::atomic<int> asked{0};
  const rewards::HttpServer server([&](const nlohmann::json& body, const std::string&) {
    if (asked++ % 10 == 3) return rewards::HttpAnswer{.status = 503};
    const auto answer = number_behind(body.at("solution_str"));
    const bool right = answer && answer == number_behind(body.at("ground_truth"));
    return rewards::HttpAnswer{
        .body = nlohmann::json{{"score", right ? 1.0 : answer ? 0.1 : 0.0}, {"acc", right}}.dump()};
  });
  ASSERT_EQ(train({}, 2, "rule").status, 0);
  const Result service =
      train({"reward.http.url=" + server.url(), "reward.http.backoff_s=0.001", "reward.http.retries=8"}, 2,
            "service");
  ASSERT_EQ(service.status, 0) << service.out << service.err;
  EXPECT_EQ(weights("rule"), weights("service"));
  EXPECT_GT(server.requests(), 64);
  EXPECT_GT(last_step("service").at("reward/errors"), 0.0);
}

// From a model that knows the task by half: it writes programs, which are run in the sandbox.
TEST_F(RewardRuns, ProgramsThatPassTheirTestsAreRewarded) {
  std::ofstream rows(folder_ / "sums.jsonl"), held_out(folder_ / "held_out.jsonl");
  for (int a = 0; a < 10; ++a)
    for (int b = 0; b < 10; ++b) {
      const std::string first = std::to_string((a + b) % 2 ? a : b), second = std::to_string(b);
      nlohmann::json row, tests;
      tests["inputs"] = {""};
      tests["outputs"] = {std::to_string(a + b)};
      row["prompt"] = std::to_string(a) + "+" + second + " ";
      row["response"] = "print(" + first + "+" + second + ")";  // right for half of the sums
      row["answer"] = tests.dump();
      (b == 9 ? held_out : rows) << row.dump() << '\n';
    }
  rows.close();
  held_out.close();
  const Result result =
      train({"data.task=files", "data.train_files=sums.jsonl", "data.val_files=held_out.jsonl", "data.answer_key=answer",
             "sft.response_key=response", "sft.bare_batch_size=0", "sft.max_steps=150", "sft.stop_at_accuracy=0", "reward.name=code",
             "reward.format_only=0", "data.max_prompt_length=16", "data.max_response_length=20"});
  if (result.err.find("bubblewrap") != std::string::npos || result.err.find("user namespaces") != std::string::npos)
    GTEST_SKIP() << result.err;
  ASSERT_EQ(result.status, 0) << result.out << result.err;
  const auto step = last_step("run", "reward/tests_passed/mean");
  EXPECT_GT(step.at("critic/score/mean"), 0.0);
  EXPECT_LT(step.at("critic/score/mean"), 1.0);
  EXPECT_EQ(step.at("reward/tests_passed/mean"), step.at("critic/score/mean"));
}

TEST_F(RewardRuns, MistakesAreFoundBeforeTheRun) {
  const Result result = train({"reward.function.path=rewrad.py", "reward.function.kwargs=3"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.out + result.err, HasSubstr("there is no file rewrad.py"));
  EXPECT_THAT(result.out + result.err, HasSubstr("must be a JSON object"));
}

// The ranks of a tensor-parallel replica hear the first one's verdicts.
TEST_F(RewardRuns, RanksOfOneReplicaShareItsVerdicts) {
  const std::string path = file("reward.py", kArithmetic);
  const std::vector<std::string> layout{"rollout.parallel.tp=2", "actor.parallel.tp=2", "reference.parallel.tp=2"};
  ASSERT_EQ(train(layout, 2, "rule").status, 0);
  auto with_function = layout;
  with_function.push_back("reward.function.path=" + path);
  ASSERT_EQ(train(with_function, 2, "function").status, 0);
  EXPECT_EQ(weights("rule"), weights("function"));
  const Result stops = train({"rollout.parallel.tp=2", "reward.function.path=" + file("bad.py", "def compute_score(**x): raise OSError('x')")}, 2, "stops");
  EXPECT_EQ(stops.status, 1);
  EXPECT_THAT(stops.out + stops.err, HasSubstr("OSError: x"));
}

}  // namespace
}  // namespace trireme::commands
