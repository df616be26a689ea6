#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "trainer/rewards/reward.h"
#include "trainer/rewards/source_rules.h"

namespace trireme::rewards {
namespace {

Score judged(const RewardConfig& config, const std::string& response, const std::string& truth,
             const std::string& source = "") {
  return make_reward(config)->score(source, response, truth);
}

TEST(AnswerRules, HaveTheNamesOfTheConfiguration) {
  for (const std::string& name : rule_names()) {
    RewardConfig config;
    config.name = name;
    EXPECT_NO_THROW((void)make_reward(config)) << name;
  }
  try {
    (void)make_reward({.name = "mathh"});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("'math'"), std::string::npos) << error.message();
  }
}

TEST(AnswerRules, TakeTheLastNumberWhereTheyAreFlexible) {
  const RewardConfig config{.name = "gsm8k_flexible"};
  EXPECT_TRUE(judged(config, "She has 17, no, 18 eggs.", "#### 18").correct);
  EXPECT_TRUE(judged(config, "That makes $1,234.50.", "1234.5").correct);
  EXPECT_FALSE(judged(config, "18 and then 17", "18").correct);
  EXPECT_FALSE(judged(config, "eighteen", "18").has_format);
}

TEST(AnswerRules, ReadMathematics) {
  EXPECT_TRUE(judged({.name = "math"}, "So it is $\\frac{1}{2}$.", "0.5").correct);
  EXPECT_TRUE(judged({.name = "math"}, "\\boxed{x=3}", "We solve ... \\boxed{3}").correct);
  EXPECT_FALSE(judged({.name = "math_boxed"}, "So it is $\\frac{1}{2}$.", "0.5").has_format);
  EXPECT_TRUE(judged({.name = "math_boxed"}, "\\boxed{\\frac{1}{2}}", "0.5").correct);
  EXPECT_TRUE(judged({.name = "math_answer"}, "...\nAnswer: $\\frac{1}{2}$", "0.5").correct);
  EXPECT_TRUE(judged({.name = "math_answer"}, "**Answer:** 0.5.\n", "\\frac12").correct);
  EXPECT_FALSE(judged({.name = "math_answer"}, "Answer: 1\nAnswer: 2", "1").correct);
  EXPECT_FALSE(judged({.name = "math_answer"}, "\\boxed{2}", "2").has_format);
  EXPECT_FALSE(judged({.name = "math_answer"}, "The answer is 2", "2").has_format);
  EXPECT_NE(make_reward({.name = "math"})->ground_truth_mistake("", "  "), "");
}

TEST(AnswerRules, VoteInOneSpelling) {
  EXPECT_EQ(judged({.name = "math"}, "\\boxed{\\frac{2}{4}}", "1").answer,
            judged({.name = "math"}, "\\boxed{0.5}", "1").answer);
  EXPECT_EQ(judged({.name = "gsm8k"}, "#### 1,000.0", "1").answer, "1000");
  EXPECT_EQ(judged({.name = "gsm8k"}, "no idea", "1").answer, "");
}

TEST(AnswerRules, SearchForAPattern) {
  RewardConfig config{.name = "regex"};
  config.pattern = "city: *(\\w+)";
  EXPECT_TRUE(judged(config, "city: Bonn\nno, city:  Berlin", "Berlin").correct);
  EXPECT_FALSE(judged(config, "city: Berlin, no, city: Bonn", "Berlin").correct);
  EXPECT_FALSE(judged(config, "Berlin", "Berlin").has_format);
  config.pattern = "[A-D]";
  EXPECT_TRUE(judged(config, "Not A, but C.", "C").correct);
  config.pattern = "(unclosed";
  EXPECT_THROW((void)make_reward(config), Error);
  config.pattern = "(a+)+$";  // would take for ever
  EXPECT_FALSE(judged(config, std::string(50000, 'a') + "b", "a").correct);
}

TEST(AnswerRules, CompareWordsOfQuestions) {
  const RewardConfig config{.name = "qa"};
  EXPECT_TRUE(judged(config, "<answer>The Eiffel-Tower!</answer>", "eiffeltower").correct);
  EXPECT_TRUE(judged(config, "<answer> an Apple </answer>", R"(["pear", "apple"])").correct);
  EXPECT_TRUE(
      judged(config, "<answer>x</answer> <answer>apple</answer>", R"({"target": ["apple"]})").correct);
  EXPECT_FALSE(judged(config, "<answer>apples</answer>", "apple").correct);
  EXPECT_FALSE(judged(config, "apple", "apple").has_format);
}

// The scores are those that verl's default_compute_score gives, source by source.
TEST(SourceRules, JudgeEachSourceAsVerlDoes) {
  const RewardConfig config{.name = "by_source"};
  const auto value = [&](const char* source, const char* response, const char* truth) {
    return judged(config, response, truth, source).value;
  };
  EXPECT_EQ(value("openai/gsm8k", "#### 18", "18"), 1.0);
  EXPECT_EQ(value("openai/gsm8k", "\\boxed{18}", "18"), 0.0);
  EXPECT_EQ(value("lighteval/MATH", "\\boxed{\\frac12}", "\\frac{1}{2}"), 1.0);
  EXPECT_EQ(value("HuggingFaceH4/MATH-500", "it is 5", "5"), 0.0);
  EXPECT_EQ(value("math_dapo", "Answer: 34", "34"), 1.0);
  EXPECT_EQ(value("math_dapo", "Answer: 35", "34"), -1.0);
  EXPECT_EQ(value("aime2024", "34", "34"), -1.0);
  EXPECT_EQ(value("numina_olympiads", "It is \\boxed{2}", "2"), 1.0);
  EXPECT_EQ(value("searchR1_nq", "<answer>Paris</answer>", R"({"target": ["Paris"]})"), 1.0);
  EXPECT_DOUBLE_EQ(value("hiyouga/geometry3k", "<think>hm</think>\\boxed{3}", "3"), 1.0);
  EXPECT_DOUBLE_EQ(value("hiyouga/geometry3k", "\\boxed{3}", "3"), 0.9);
  EXPECT_DOUBLE_EQ(value("hiyouga/geometry3k", "<think>hm</think>\\boxed{4}", "3"), 0.1);
  const auto reward = make_reward(config);
  for (const char* source : {"codecontests", "apps", "codeforces", "taco"})
    EXPECT_TRUE(reward->judges_programs(source)) << source;
  EXPECT_FALSE(reward->judges_programs("math"));
  EXPECT_NE(reward->ground_truth_mistake("my/data", "5").find("my/data=RULE"), std::string::npos);
  EXPECT_EQ(reward->ground_truth_mistake("openai/gsm8k", "5"), "");
}

TEST(SourceRules, CanBeAdded) {
  RewardConfig config{.name = "by_source", .wrong = -0.5};
  config.sources = {"my/*=math", "openai/gsm8k=gsm8k_flexible"};
  EXPECT_EQ(judged(config, "\\boxed{0.5}", "\\frac12", "my/data").value, 1.0);
  EXPECT_EQ(judged(config, "", "\\frac12", "my/data").value, -0.5);
  EXPECT_EQ(judged(config, "it is 18", "18", "openai/gsm8k").value, 1.0);
  config.sources = {"my/data"};
  EXPECT_THROW((void)make_reward(config), Error);
  config.sources = {"my/data=no_rule"};
  EXPECT_THROW((void)make_reward(config), Error);
}

}  // namespace
}  // namespace trireme::rewards
