#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <ostream>
#include <thread>

#include <nlohmann/json.hpp>

#include "runtime/base/error.h"
#include "trainer/rewards/answer_number.h"
#include "trainer/rewards/reward.h"

namespace trireme::rewards {
namespace {

enum Verdict { correct, wrong, no_format };

struct Case {
  std::string response, truth;
  Verdict verdict;
  friend std::ostream& operator<<(std::ostream& out, const Case& c) {
    return out << '"' << c.response.substr(0, 100) << "\" against \"" << c.truth.substr(0, 100) << '"';
  }
};

Verdict verdict_of(const std::string& reward, const Case& c) {
  const Score score = make_reward({.name = reward})->score("", c.response, c.truth);
  EXPECT_TRUE(score.has_format || !score.correct) << c;
  return score.correct ? correct : score.has_format ? wrong : no_format;
}

void expect_verdicts(const std::string& reward, const std::vector<Case>& cases) {
  for (const Case& c : cases) EXPECT_EQ(verdict_of(reward, c), c.verdict) << c;
}

TEST(Gsm8kReward, TakesTheNumberAfterTheLastMark) {
  expect_verdicts("gsm8k", {
                               {"#### 18", "18", correct},
                               {"She sells 9 * 2 = 18.\n#### 18", "18", correct},
                               {"#### 17", "18", wrong},
                               {"####18", "18", correct},
                               {"####\t18", "18", correct},
                               {"####   18   ", "18", correct},
                               {"#### 18\n", "18", correct},
                               {"#### 18\r\n", "18", correct},
                               {"#### 18\nThat is all, 19 is not.", "18", correct},
                               {"#### 17\n#### 18", "18", correct},
                               {"#### 18\n#### 17", "18", wrong},
                               {"#### 1 #### 2 #### 3 #### 18", "18", correct},
                               {"##### 18", "18", correct},
                               {"#######", "18", no_format},
                               {"", "18", no_format},
                               {"18", "18", no_format},
                               {"The answer is 18.", "18", no_format},
                               {"### 18", "18", no_format},
                               {"# # # # 18", "18", no_format},
                               {"####", "18", no_format},
                               {"#### ", "18", no_format},
                               {"####\n18", "18", no_format},
                               {"#### 18\n####", "18", no_format},
                               {"#### eighteen", "18", no_format},
                               {"#### The answer is 18", "18", no_format},
                               {"#### ?", "18", no_format},
                               {"#### None", "0", no_format},
                           });
}

TEST(Gsm8kReward, LooksThroughCurrencyUnitsAndEmphasis) {
  expect_verdicts("gsm8k", {
                               {"#### $18", "18", correct},
                               {"#### $ 18", "18", correct},
                               {"#### \\$18", "18", correct},
                               {"#### \u20ac18", "18", correct},
                               {"#### 18 \u20ac", "18", correct},
                               {"#### 18\u20ac", "18", correct},
                               {"#### \u00a318.50", "18.5", correct},
                               {"#### \u00a518", "18", correct},
                               {"#### \u20b918", "18", correct},
                               {"#### USD 18", "18", correct},
                               {"#### US$18", "18", correct},
                               {"#### 18$", "18", correct},
                               {"#### 18 dollars", "18", correct},
                               {"#### 18 dollars per day", "18", correct},
                               {"#### 18km", "18", correct},
                               {"#### 18 m2", "18", correct},
                               {"#### 18%", "18", correct},
                               {"#### 18 %.", "18", correct},
                               {"#### 18 eggs", "18", correct},
                               {"#### 18 (eggs)", "18", correct},
                               {"#### 18 eggs (6 per box)", "18", correct},
                               {"#### **18**", "18", correct},
                               {"#### **$1,234.50** per month.", "1234.5", correct},
                               {"#### `18`", "18", correct},
                               {"#### = 18", "18", correct},
                               {"#### 18<|im_end|>", "18", correct},
                           });
}

TEST(Gsm8kReward, ReadsGroupsDecimalsAndSigns) {
  expect_verdicts("gsm8k", {
                               {"#### 18.", "18", correct},
                               {"#### 18!", "18", correct},
                               {"#### 18, of course", "18", correct},
                               {"#### 18. Then 3 are left.", "18", correct},
                               {"#### 1,000", "1000", correct},
                               {"#### 1000", "1,000", correct},
                               {"#### 1,234,567", "1234567", correct},
                               {"#### 12,34,567", "1234567", correct},
                               {"#### 1,000.", "1000", correct},
                               {"#### 1,000,", "1000", correct},
                               {"#### $1,234.50", "1234.5", correct},
                               {"#### 18.0", "18", correct},
                               {"#### 18.00", "18", correct},
                               {"#### 18", "18.00", correct},
                               {"#### 018", "18", correct},
                               {"#### 0.50", "0.5", correct},
                               {"#### .5", "0.5", correct},
                               {"#### 0.5", ".50", correct},
                               {"#### 18.5", "18", wrong},
                               {"#### 18.0000000000000000000000000001", "18", wrong},
                               {"#### -5", "-5", correct},
                               {"#### \u22125", "-5", correct},
                               {"#### -5", "5", wrong},
                               {"#### 5", "-5", wrong},
                               {"#### +5", "5", correct},
                               {"#### -$5", "-5", correct},
                               {"#### $-5", "-5", correct},
                               {"#### -0", "0", correct},
                               {"#### -0.00", "0", correct},
                               {"#### 0", "0", correct},
                               {"#### 00", "0", correct},
                               {"#### -.5", "-0.5", correct},
                               {"#### - 5", "-5", no_format},
                               {"#### --5", "-5", no_format},
                               {"#### -", "-5", no_format},
                               {"#### .", "0", no_format},
                               {"#### ,", "0", no_format},
                               {"#### ,5", "5", no_format},
                           });
}

TEST(Gsm8kReward, RefusesWhatIsMoreThanANumber) {
  expect_verdicts("gsm8k", {
                               {"#### 3/4", "3", no_format},
                               {"#### 3 / 4", "3", no_format},
                               {"#### 1 1/2", "1", no_format},
                               {"#### 10-12", "10", no_format},
                               {"#### 10 \u2013 12", "10", no_format},
                               {"#### 2 + 3 = 5", "2", no_format},
                               {"#### 2*9", "2", no_format},
                               {"#### 2 x 9", "2", no_format},
                               {"#### 2\u00d79", "2", no_format},
                               {"#### 2^5", "2", no_format},
                               {"#### 3:30", "3", no_format},
                               {"#### 50%-60%", "50", no_format},
                               {"#### 1e400", "1", no_format},
                               {"#### 1E+400", "1", no_format},
                               {"#### 1e-2", "1", no_format},
                               {"#### 0x12", "0", no_format},
                               {"#### 1.2.3", "1.2", no_format},
                               {"#### 1,23", "123", no_format},
                               {"#### 1,5", "15", no_format},
                               {"#### 1234,567", "1234567", no_format},
                               {"#### 1,,000", "1", no_format},
                               {"#### 17 18 19 20", "17", no_format},
                               {"#### 17, 18, 19", "17", no_format},
                               {"#### nan", "0", no_format},
                               {"#### inf", "0", no_format},
                               {"#### \uff11\uff18", "18", no_format},
                               {std::string("#### 1\0008", 8), "18", wrong},
                               {"#### \xff\xfe", "18", no_format},
                           });
}

TEST(Gsm8kReward, TakesAWholeSolutionAsGroundTruth) {
  expect_verdicts("gsm8k",
                  {
                      {"#### 1,800", "He walks 9 * 200 = <<9*200=1800>>1800 steps.\n#### 1,800", correct},
                      {"#### 18", " 18\n", correct},
                      {"#### 18", "$18", correct},
                  });
}

TEST(Gsm8kReward, SurvivesHugeTexts) {
  const std::string noise(10 << 20, '#'), digits(10 << 20, '7');
  expect_verdicts("gsm8k", {
                               {std::string(10 << 20, 'x') + "#### 18", "18", correct},
                               {"#### 18" + std::string(10 << 20, ' '), "18", correct},
                               {"#### 18\n" + std::string(10 << 20, '5'), "18", correct},
                               {noise, "18", no_format},
                               {noise + " 18", "18", correct},
                               {"#### " + digits, digits, correct},
                               {"#### " + digits + "1", digits, wrong},
                               {"#### " + std::string(1 << 20, '0') + "18", "18", correct},
                               {"#### " + std::string(1 << 20, '$') + "18", "18", correct},
                           });
}

TEST(Gsm8kReward, ReadsEveryAnswerOfTheDataSet) {
  const char* data = std::getenv("TRIREME_TEST_DATA");
  if (data == nullptr) GTEST_SKIP() << "TRIREME_TEST_DATA is not set";
  std::ifstream lines(std::string(data) + "/gsm8k/train.jsonl");
  if (!lines) GTEST_SKIP() << data << "/gsm8k/train.jsonl is not there";
  const auto reward = make_reward({.name = "gsm8k"});
  int64_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const std::string answer = nlohmann::json::parse(line)["answer"];
    const std::string number = answer.substr(answer.rfind("####") + 5);
    EXPECT_TRUE(reward->score("", answer, answer).correct) << answer;
    EXPECT_TRUE(reward->score("", answer, number).correct) << answer;
    EXPECT_FALSE(reward->score("", answer + "1", answer).correct) << answer;
  }
  EXPECT_EQ(count, 7473);
}

TEST(ExactMatchReward, IgnoresWhiteSpaceOnly) {
  expect_verdicts("exact_match", {
                                     {"Paris", "Paris", correct},
                                     {"  Paris\n", "Paris", correct},
                                     {"New   York\tCity", "New York City", correct},
                                     {"New\nYork", " New York ", correct},
                                     {"NewYork", "New York", wrong},
                                     {"paris", "Paris", wrong},
                                     {"Paris.", "Paris", wrong},
                                     {"Paris Paris", "Paris", wrong},
                                     {"", "Paris", no_format},
                                     {" \t\r\n", "Paris", no_format},
                                     {"\xff\xfe", "\xff\xfe", correct},
                                     {std::string("a\0b", 3), std::string("a\0b", 3), correct},
                                     {std::string("a\0b", 3), "a", wrong},
                                     {std::string(10 << 20, 'x'), "x", wrong},
                                     {std::string(10 << 20, ' ') + "x", "x", correct},
                                 });
}

TEST(ArithmeticReward, TakesTheWholeNumberAtTheEnd) {
  expect_verdicts("arithmetic", {
                                    {"39-13=26", "26", correct},
                                    {"39-13=27", "26", wrong},
                                    {"39-13= 26", "26", correct},
                                    {"39-13=26\n", "26", correct},
                                    {"39-13=26  ", "26", correct},
                                    {"Answer: 26", "26", correct},
                                    {"30-10=20; 9-3=6; 26", "26", correct},
                                    {"30-10=20; 9-3=6; 20+6=26", "26", correct},
                                    {"=26=27", "26", wrong},
                                    {"=27=26", "26", correct},
                                    {"13-39=-26", "-26", correct},
                                    {"13-39=-26", "26", wrong},
                                    {"=026", "26", correct},
                                    {"=-0", "0", correct},
                                    {"=26", "39-13=26", correct},
                                    {"26", "26", no_format},
                                    {"", "26", no_format},
                                    {"=", "26", no_format},
                                    {"39-13=", "26", no_format},
                                    {"39-13=26 apples", "26", no_format},
                                    {"39-13=26.", "26", no_format},
                                    {"39-13=26.0", "26", no_format},
                                    {"39-13=2 6", "26", no_format},
                                    {"39-13=26;", "26", no_format},
                                    {"39-13=+26", "26", no_format},
                                    {"39-13=--26", "26", no_format},
                                    {"39-13=\u221226", "-26", no_format},
                                    {"39-13=1e400", "1", no_format},
                                    {"39-13=2,600", "2600", no_format},
                                    {"39-13=twenty-six", "26", no_format},
                                    {"=18446744073709551642", "26", wrong},  // 2^64 + 26
                                    {"=4294967322", "26", wrong},            // 2^32 + 26
                                    {"=99999999999999999999999999", "99999999999999999999999999", correct},
                                    {std::string("=26\0", 4), "26", no_format},
                                    {std::string(10 << 20, '=') + "26", "26", correct},
                                    {"=" + std::string(10 << 20, '1'), "26", wrong},
                                });
}

TEST(Reward, ValuesComeFromTheConfiguration) {
  const auto reward = make_reward({.name = "gsm8k", .correct = 2.0, .format_only = 0.25, .wrong = -1.0});
  EXPECT_EQ(reward->score("", "#### 18", "18").value, 2.0);
  EXPECT_EQ(reward->score("", "#### 17", "18").value, 0.25);
  EXPECT_EQ(reward->score("", "18", "18").value, -1.0);
}

TEST(Reward, AGroundTruthThatCannotBeUsedIsAnError) {
  for (const auto& [name, truth] : {std::pair{"gsm8k", "a dozen"},
                                    {"gsm8k", ""},
                                    {"gsm8k", "no number\n#### none"},
                                    {"exact_match", " "},
                                    {"arithmetic", "2.5"},
                                    {"arithmetic", ""}}) {
    const auto reward = make_reward({.name = name});
    EXPECT_NE(reward->ground_truth_mistake("", truth), "") << name << ": " << truth;
    try {
      reward->score("", "#### 18", truth);
      ADD_FAILURE() << name << " took " << truth;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_config);
      EXPECT_NE(error.message().find(name), std::string::npos) << error.message();
    }
  }
  EXPECT_EQ(make_reward({.name = "gsm8k"})->ground_truth_mistake("", "18"), "");
}

TEST(Reward, AnUnknownNameGetsTheNearestOne) {
  try {
    make_reward({.name = "gms8k"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_config);
    EXPECT_NE(error.message().find("perhaps 'gsm8k'"), std::string::npos) << error.message();
    EXPECT_NE(error.message().find("arithmetic"), std::string::npos) << error.message();
  }
}

TEST(Reward, MayBeAskedFromManyThreads) {
  const auto reward = make_reward({.name = "gsm8k"});
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 1000; ++i)
        right += reward->score("", fmt::format("#### {}", i), fmt::format("{}", t * 100)).correct;
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(right, 4);
}

}  // namespace
}  // namespace trireme::rewards
