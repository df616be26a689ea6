#include "trainer/rewards/shaping.h"

#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "trainer/rewards/reward.h"
#include "trainer/rewards/scorer.h"

namespace trireme::rewards {
namespace {

TEST(Tags, AreOnceEachInTheirOrder) {
  const std::vector<std::string> tags = {"think", "answer"};
  EXPECT_TRUE(has_tags("<think>a</think><answer>b</answer>", tags));
  EXPECT_TRUE(has_tags("\n<think>\na\n</think>\n<answer> b </answer>\n", tags));
  EXPECT_TRUE(has_tags("a</think><answer>b</answer>", tags));  // the prompt opened it
  EXPECT_FALSE(has_tags("<think>a</think> so <answer>b</answer>", tags));
  EXPECT_FALSE(has_tags("<think>a</think><answer>b</answer> right?", tags));
  EXPECT_FALSE(has_tags("<answer>b</answer><think>a</think>", tags));
  EXPECT_FALSE(has_tags("<think>a</think>", tags));
  EXPECT_FALSE(has_tags("<think>a</think><answer>b", tags));
  EXPECT_FALSE(has_tags("<think>a</think><answer> </answer>", tags));
  EXPECT_FALSE(has_tags("<think>a<think>b</think><answer>c</answer>", tags));
  EXPECT_FALSE(has_tags("<think>a</think><answer>b</answer><answer>c</answer>", tags));
  EXPECT_FALSE(has_tags("hello <think>a</think><answer>b</answer>", tags));
  EXPECT_FALSE(has_tags("a</think>b</answer>", tags));
  EXPECT_FALSE(has_tags("", tags));
}

TEST(Repetition, IsTheShareOfWhatWasSaidBefore) {
  EXPECT_EQ(repetition("a b c d e", 3), 0.0);
  EXPECT_DOUBLE_EQ(repetition("a b c a b c", 3), -0.25);  // abc bca cab abc
  EXPECT_DOUBLE_EQ(repetition("A b  C a\nB c", 3), -0.25);
  EXPECT_EQ(repetition("a b", 3), 0.0);
  EXPECT_EQ(repetition("", 1), 0.0);
  std::string loop;
  for (int i = 0; i < 1000; ++i) loop += "again ";
  EXPECT_LT(repetition(loop, 3), -0.99);
}

TEST(CosineLength, GoesFromTheShortestsToTheLongestsValue) {
  const CosineConfig config;
  EXPECT_DOUBLE_EQ(cosine_length(true, 0, 100, config), 1.0);
  EXPECT_DOUBLE_EQ(cosine_length(true, 50, 100, config), 0.75);
  EXPECT_DOUBLE_EQ(cosine_length(true, 100, 100, config), 0.5);
  EXPECT_DOUBLE_EQ(cosine_length(true, 500, 100, config), 0.5);
  EXPECT_DOUBLE_EQ(cosine_length(false, 0, 100, config), -1.0);
  EXPECT_DOUBLE_EQ(cosine_length(false, 100, 100, config), -0.5);
  EXPECT_GT(cosine_length(false, 60, 100, config), cosine_length(false, 40, 100, config));
}

TEST(ShapedScorer, AddsUpItsComponents) {
  RewardConfig config{.name = "gsm8k", .weight = 0.8};
  config.format = {.weight = 0.2, .pattern = ".*#### .*", .tags = {}};
  config.repetition = {.weight = 0.5, .ngram_size = 1};
  config.cosine.weight = 0.1;
  config.cosine.max_tokens = 100;
  const auto rule = make_reward(config);
  const auto scorer = make_scorer(config, *rule);
  const int64_t first = scorer->submit({"", "so so\n#### 18", "18", "", 50});
  const int64_t second = scorer->submit({"", "no", "18", "", 100});
  const Score wrong = scorer->wait(second), right = scorer->wait(first);  // in any order
  EXPECT_TRUE(right.correct);
  EXPECT_EQ(right.extras.at("answer"), 1.0);
  EXPECT_EQ(right.extras.at("format"), 1.0);
  EXPECT_EQ(right.extras.at("repetition"), -0.25);
  EXPECT_DOUBLE_EQ(right.extras.at("cosine"), 0.75);
  EXPECT_DOUBLE_EQ(right.value, 0.8 + 0.2 - 0.125 + 0.075);
  EXPECT_FALSE(wrong.correct);
  EXPECT_DOUBLE_EQ(wrong.value, 0.1 * -0.5);
  EXPECT_EQ(wrong.extras.at("format"), 0.0);
}

TEST(ShapedScorer, IsNotThereWhereNothingIsWeighed) {
  const RewardConfig config{.name = "gsm8k"};
  const auto rule = make_reward(config);
  EXPECT_TRUE(make_scorer(config, *rule)->score({"", "#### 18", "18", "", 9}).extras.empty());
  RewardConfig wrong;
  wrong.format = {.weight = 1, .pattern = "(", .tags = {}};
  EXPECT_THROW((void)make_scorer(wrong, *rule), Error);
}

}  // namespace
}  // namespace trireme::rewards
