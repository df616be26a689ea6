#include "trainer/data/arithmetic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <tuple>

#include "trainer/data/problem_set.h"
#include "trainer/text/tokenizer.h"

namespace trireme::data {
namespace {

ArithmeticConfig small_config() {
  ArithmeticConfig config;
  config.min_operand = 10;
  config.max_operand = 49;
  config.held_out_fraction = 0.25;
  config.num_val = 300;
  return config;
}

std::vector<int64_t> numbers_in(const std::string& text) {
  std::vector<int64_t> numbers;
  for (size_t at = 0; at < text.size();) {
    if (std::isdigit(static_cast<unsigned char>(text[at])) == 0) {
      ++at;
      continue;
    }
    char* end = nullptr;
    numbers.push_back(std::strtoll(text.c_str() + at, &end, 10));
    at = static_cast<size_t>(end - text.c_str());
  }
  return numbers;
}

std::pair<int64_t, int64_t> unordered_pair_of(const Problem& problem) {
  const auto numbers = numbers_in(problem.prompt);
  EXPECT_EQ(numbers.size(), 2u) << problem.prompt;
  return std::minmax(numbers.at(0), numbers.at(1));
}

// The operation, told from the numbers alone: the answer is their sum or their difference.
char operation_of(const Problem& problem) {
  const auto numbers = numbers_in(problem.prompt);
  const int64_t answer = std::stoll(problem.answer);
  if (answer == numbers.at(0) + numbers.at(1)) return '+';
  EXPECT_EQ(answer, numbers.at(0) - numbers.at(1)) << problem.prompt << problem.answer;
  return '-';
}

auto fields_of(const std::vector<Problem>& problems) {
  std::vector<std::tuple<int64_t, std::string, std::string, std::string>> fields;
  for (const auto& p : problems) fields.emplace_back(p.index, p.prompt, p.answer, p.response);
  return fields;
}

TEST(Arithmetic, HoldsOutUnorderedPairsOfOperandsForBothOperations) {
  for (const uint64_t seed : {0, 1, 77}) {
    const ProblemSet set = make_arithmetic(small_config(), seed);
    std::set<std::pair<int64_t, int64_t>> train, held;
    for (const auto& p : set.train) train.insert(unordered_pair_of(p));
    for (const auto& p : set.bare) EXPECT_TRUE(train.contains(unordered_pair_of(p))) << p.prompt;
    for (const auto& p : set.val) held.insert(unordered_pair_of(p));
    for (const auto& pair : held) EXPECT_FALSE(train.contains(pair)) << pair.first << " " << pair.second;
    EXPECT_EQ(train.size(), 615u);  // 820 unordered pairs, a quarter of them held out
    EXPECT_EQ(held.size(), 150u);   // 300 held-out problems: a sum and a difference of 150 pairs
  }
}

TEST(Arithmetic, AnswersAndResponsesVerify) {
  const ProblemSet set = make_arithmetic(small_config(), 4);
  for (const auto* problems : {&set.train, &set.val, &set.bare})
    for (const auto& p : *problems) {
      operation_of(p);
      EXPECT_GE(std::stoll(p.answer), 0) << p.prompt;
      const auto in_response = numbers_in(p.response);
      ASSERT_GE(in_response.size(), 3u);
      EXPECT_EQ(std::to_string(in_response.back()), p.answer) << p.response;
      // The response begins with the operands in the prompt's order.
      EXPECT_EQ(std::vector(in_response.begin(), in_response.begin() + 2), numbers_in(p.prompt))
          << p.response;
      EXPECT_EQ(p.data_source, "arithmetic");
    }
}

TEST(Arithmetic, BalancesOperations) {
  const ProblemSet set = make_arithmetic(small_config(), 5);
  for (const auto* problems : {&set.train, &set.val, &set.bare}) {
    const auto sums = std::count_if(problems->begin(), problems->end(),
                                    [](const Problem& p) { return operation_of(p) == '+'; });
    EXPECT_EQ(static_cast<size_t>(2 * sums), problems->size());
  }
}

TEST(Arithmetic, AsksSumsInBothOrders) {
  const ProblemSet set = make_arithmetic(small_config(), 6);
  int64_t ascending = 0, descending = 0;
  for (const auto& p : set.train) {
    if (operation_of(p) != '+') continue;
    const auto numbers = numbers_in(p.prompt);
    ascending += numbers[0] < numbers[1] ? 1 : 0;
    descending += numbers[0] > numbers[1] ? 1 : 0;
  }
  EXPECT_EQ(ascending, descending);
}

TEST(Arithmetic, FollowsFromTheSeed) {
  const ProblemSet one = make_arithmetic(small_config(), 7), same = make_arithmetic(small_config(), 7),
                   other = make_arithmetic(small_config(), 8);
  EXPECT_EQ(fields_of(one.train), fields_of(same.train));
  EXPECT_EQ(fields_of(one.val), fields_of(same.val));
  EXPECT_EQ(fields_of(one.bare), fields_of(same.bare));
  EXPECT_NE(fields_of(one.train), fields_of(other.train));
  EXPECT_NE(fields_of(one.val), fields_of(other.val));
}

TEST(Arithmetic, TellsItInManyWaysThatFitAShortPrompt) {
  const ProblemSet set = make_arithmetic(small_config(), 9);
  std::map<char, std::set<std::string>> frames;
  for (const auto& p : set.train) {
    const auto tokens = text::Tokenizer::bytes()->encode(p.prompt).size();
    EXPECT_GE(tokens, 20u) << p.prompt;
    EXPECT_LE(tokens, 40u) << p.prompt;
    std::string frame = p.prompt;
    frame.erase(
        std::remove_if(frame.begin(), frame.end(), [](unsigned char c) { return std::isdigit(c) != 0; }),
        frame.end());
    frames[operation_of(p)].insert(frame);
  }
  EXPECT_GE(arithmetic_format::num_templates(), 8);
  EXPECT_GT(frames['+'].size(), 300u);  // templates with their names and things
  EXPECT_GT(frames['-'].size(), 300u);
}

TEST(Arithmetic, WorksResponsesAsOnPaper) {
  const auto response = [](int64_t left, char operation, int64_t right) {
    return arithmetic_format::response({left, right, operation});
  };
  // Carry or borrow, units digit; tens; the value.
  EXPECT_EQ(response(47, '+', 25), "47+25:12,7=72");
  EXPECT_EQ(response(23, '+', 14), "23+14:07,3=37");
  EXPECT_EQ(response(58, '+', 67), "58+67:15,12=125");
  EXPECT_EQ(response(95, '+', 17), "95+17:12,11=112");
  EXPECT_EQ(response(72, '-', 25), "72-25:17,4=47");
  EXPECT_EQ(response(68, '-', 23), "68-23:05,4=45");
  EXPECT_EQ(response(40, '-', 38), "40-38:12,0=2");
  EXPECT_EQ(response(55, '-', 55), "55-55:00,0=0");
}

TEST(Arithmetic, AsksBareExpressions) {
  const ProblemSet set = make_arithmetic(small_config(), 10);
  for (const auto& p : set.bare) {
    const auto numbers = numbers_in(p.prompt);
    EXPECT_EQ(p.prompt, arithmetic_format::bare_prompt({numbers[0], numbers[1], operation_of(p)}));
  }
}

TEST(Arithmetic, IndicesCountWithinEachList) {
  const ProblemSet set = make_arithmetic(small_config(), 11);
  for (const auto* problems : {&set.train, &set.val, &set.bare})
    for (size_t i = 0; i < problems->size(); ++i) ASSERT_EQ((*problems)[i].index, static_cast<int64_t>(i));
}

TEST(Arithmetic, ListsEveryMistakeInTheConfiguration) {
  ArithmeticConfig config;
  config.min_operand = -1;
  config.max_operand = 5000;
  config.held_out_fraction = 1.5;
  config.num_val = 0;
  try {
    make_arithmetic(config, 0);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_config);
    for (const char* key : {"min_operand", "max_operand", "held_out_fraction", "num_val"})
      EXPECT_NE(error.message().find(std::string("data.arithmetic.") + key), std::string::npos)
          << error.message();
  }
}

TEST(Arithmetic, RefusesMoreHeldOutProblemsThanThereAre) {
  ArithmeticConfig config;
  config.min_operand = 1;
  config.max_operand = 3;
  config.num_val = 1000;
  EXPECT_THROW(make_arithmetic(config, 0), Error);
  config.num_val = 16;  // one held-out pair, two operations, eight templates
  EXPECT_EQ(make_arithmetic(config, 0).val.size(), 16u);
}

TEST(Arithmetic, TakesTheWidestRange) {
  ArithmeticConfig config;
  config.min_operand = 0;
  config.max_operand = 999;
  const ProblemSet set = make_arithmetic(config, 0);
  EXPECT_EQ(set.train.size(), 500'500u * 8 / 10 * 2);
  EXPECT_EQ(set.val.size(), 512u);
}

TEST(LoadProblems, MakesTheArithmeticTask) {
  DataConfig config;
  config.task = "arithmetic";
  config.arithmetic = small_config();
  config.train_max_samples = 100;
  config.val_max_samples = 10;
  const ProblemSet set = load_problems(config, {"answer"}, 3);
  EXPECT_EQ(set.train.size(), 100u);
  EXPECT_EQ(set.val.size(), 10u);
  EXPECT_FALSE(set.bare.empty());
  config.task = "arithmetics";
  EXPECT_THROW(load_problems(config, {"answer"}, 3), Error);
}

}  // namespace
}  // namespace trireme::data
