// Answers against verdicts written beside them (pairs.jsonl, by tools/make_answer_pairs.py), and against what
// nobody should write.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "trainer/answers/answer.h"

namespace trireme::answers {
namespace {

TEST(Answers, AreJudgedAsWrittenBesideThem) {
  const char* source = std::getenv("TRIREME_SOURCE_DIR");
  ASSERT_NE(source, nullptr);
  std::ifstream lines(std::string(source) + "/tests/trainer/answers/pairs.jsonl");
  std::map<std::string, int> pairs;
  for (std::string line; std::getline(lines, line);) {
    const auto pair = nlohmann::json::parse(line);
    const std::string truth = pair["truth"], response = pair["response"];
    const auto answer = find_answer(response, AnswerPlace::anywhere);
    EXPECT_EQ(answer && same_answer(*answer, truth), pair["same"].get<bool>())
        << pair["kind"] << ": '" << truth << "' and '" << response << "', found '"
        << answer.value_or("nothing") << "'";
    ++pairs[pair["same"].get<bool>() ? "same" : "not"];
  }
  EXPECT_GE(pairs["same"] + pairs["not"], 700);
  EXPECT_GE(pairs["not"], 250);
}

// Equality goes both ways, and an answer is itself.
TEST(Answers, AreTheSameBothWays) {
  std::ifstream lines(std::string(std::getenv("TRIREME_SOURCE_DIR")) + "/tests/trainer/answers/pairs.jsonl");
  for (std::string line; std::getline(lines, line);) {
    const auto pair = nlohmann::json::parse(line);
    const std::string truth = pair["truth"];
    const auto answer = find_answer(pair["response"].get<std::string>(), AnswerPlace::anywhere);
    EXPECT_TRUE(same_answer(truth, truth)) << truth;
    if (answer) {
      EXPECT_EQ(same_answer(*answer, truth), same_answer(truth, *answer)) << truth << " and " << *answer;
    }
  }
}

TEST(Answers, InABoxAreThoseOfTheLastClosedOne) {
  EXPECT_EQ(last_boxed(R"(\boxed{1} and \boxed{\frac{1}{2}})"), R"(\frac{1}{2})");
  EXPECT_EQ(last_boxed(R"(\boxed{1} and \boxed{2)"), "1");
  EXPECT_EQ(last_boxed(R"(\boxed {3})"), "3");
  EXPECT_EQ(last_boxed(R"(\boxed 3 is it)"), "3");
  EXPECT_EQ(last_boxed(R"(\boxed{\{1, 2\}})"), R"(\{1, 2\})");
  EXPECT_EQ(last_boxed("boxed"), std::nullopt);
  EXPECT_EQ(last_boxed(""), std::nullopt);
  EXPECT_EQ(find_answer("The answer is 5.", AnswerPlace::boxed), std::nullopt);
  EXPECT_EQ(find_answer("", AnswerPlace::anywhere), std::nullopt);
}

TEST(Answers, LastNumberHasItsSignAndNoPunctuation) {
  EXPECT_EQ(last_number("It is -1,234.5."), "-1,234.5");
  EXPECT_EQ(last_number("10-3"), "3");
  EXPECT_EQ(last_number("18, of course"), "18");
  EXPECT_EQ(last_number(".5"), ".5");
  EXPECT_EQ(last_number("..., 7,"), "7");
  EXPECT_EQ(last_number("none"), std::nullopt);
}

TEST(Answers, HaveOneSpellingToVoteWith) {
  for (const char* half : {"0.5", R"(\frac{1}{2})", "1/2", "x = 0.50", ".5"})
    EXPECT_EQ(normal_answer(half), "1/2");
  EXPECT_EQ(normal_answer("1,000"), "1000");
  EXPECT_EQ(normal_answer(R"(\text{Tuesday})"), "tuesday");
  EXPECT_NE(normal_answer("50%"), normal_answer("50"));
}

// Whatever a model writes, judging it ends soon and does not fail.
TEST(Answers, SurviveWhatNobodyMeant) {
  const auto repeated = [](const std::string& part, size_t times) {
    std::string text;
    for (size_t i = 0; i < times; ++i) text += part;
    return text;
  };
  const std::string hostile[] = {
      "9^{9^{9^{9^9}}}",
      "(1+x)^{1000000}",
      "((((1+x+y)^{60})^{60})^{60})^{60}",
      repeated("(", 100000),
      repeated("{", 100000) + repeated("}", 100000),
      repeated("(", 900) + "1" + repeated(")", 900),
      repeated("\\sqrt{", 300) + "2" + repeated("}", 300),
      repeated("\\sin(", 90) + "x" + repeated(")", 90),
      repeated("x^", 500) + "2",
      repeated("\\frac{1}{1+", 150) + "x" + repeated("}", 150),
      repeated("1,", 900),
      repeated("9", 1000000),
      repeated("9", 1900) + "!",
      "\\sqrt{" + repeated("7", 280) + "}",
      repeated("\\sqrt{99999999999999999999999999999999999999999999999999999999}+", 30) + "1",
      "1e999999999999",
      "1/0",
      "0^{-1}",
      "0/0",
      "\\frac{}{}",
      "\\begin{pmatrix}",
      "\\begin{pmatrix} 1 & 2 \\\\ 3 \\end{pmatrix}",
      "\\\\",
      "\\",
      "|||||||",
      "\\text{",
      repeated("\\text{", 300),
      std::string("1\0002", 3),
      "\xff\xfe",
      "1000000000000000000000!",
      "\\binom{1000000}{500000}",
      repeated("(x+y)(x-y)(a+b+c)", 100),
      "=",
      "<",
      "\\pm",
      repeated("\\pm 1, ", 200),
  };
  for (const std::string& a : hostile) {
    (void)find_answer(a, AnswerPlace::anywhere);
    (void)normal_answer(a);
    for (const char* b : {"x", "5", "(1, 2)", "\\sqrt{2}+x^2", "1,2,3"}) {
      EXPECT_FALSE(same_answer(a, b)) << a.substr(0, 60) << " and " << b;
      EXPECT_FALSE(same_answer(b, a)) << a.substr(0, 60) << " and " << b;
    }
  }
}

TEST(Answers, SurviveRandomTokens) {
  static const char* const kPieces[] = {"1",
                                        "23",
                                        "x",
                                        "y",
                                        "+",
                                        "-",
                                        "*",
                                        "/",
                                        "^",
                                        "(",
                                        ")",
                                        "{",
                                        "}",
                                        "[",
                                        "]",
                                        "\\frac",
                                        "\\sqrt",
                                        "\\{",
                                        "\\}",
                                        ",",
                                        "=",
                                        "<",
                                        "\\cup",
                                        "\\pm",
                                        "\\text",
                                        "cm",
                                        "%",
                                        "!",
                                        "|",
                                        ".",
                                        "\\\\",
                                        "&",
                                        "\\pi",
                                        "\\le",
                                        "\\in",
                                        "\\sin",
                                        " ",
                                        "\\begin{pmatrix}",
                                        "\\end{pmatrix}",
                                        "\\boxed{",
                                        "e",
                                        "i",
                                        "_",
                                        "$",
                                        "\\log",
                                        "^\\circ",
                                        "or",
                                        "\\infty"};
  std::mt19937 random(7);
  const auto some = [&] {
    std::string text;
    for (auto left = random() % 24; left > 0; --left) text += kPieces[random() % std::size(kPieces)];
    return text;
  };
  int same = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::string a = some(), b = some();
    EXPECT_EQ(same_answer(a, b), same_answer(b, a)) << a << " and " << b;
    same += same_answer(a, b) ? 1 : 0;
    (void)find_answer(a, AnswerPlace::anywhere);
    (void)normal_answer(a);
  }
  EXPECT_LT(same, 2000);
}

// Any expression equals itself multiplied out, turned round or with a zero added, and not itself plus one.
TEST(Answers, HoldToTheLawsOfArithmetic) {
  std::mt19937 random(11);
  const std::function<std::string(int)> any = [&](int depth) -> std::string {
    if (depth == 0) {
      switch (random() % 6) {
        case 0:
          return "x";
        case 1:
          return "y";
        case 2:
          return "\\pi";
        case 3:
          return "\\sqrt{" + std::to_string(random() % 20 + 1) + "}";
        case 4:
          return "\\frac{" + std::to_string(random() % 20 + 1) + "}{" + std::to_string(random() % 9 + 1) +
                 "}";
        default:
          return std::to_string(random() % 100);
      }
    }
    const std::string a = any(depth - 1), b = any(depth - 1);
    switch (random() % 4) {
      case 0:
        return "(" + a + "+" + b + ")";
      case 1:
        return "(" + a + "-" + b + ")";
      case 2:
        return "(" + a + ")(" + b + ")";
      default:
        return "(" + a + ")^{" + std::to_string(random() % 3 + 1) + "}";
    }
  };
  for (int i = 0; i < 2000; ++i) {
    const std::string a = any(2), b = any(2), c = any(1);
    EXPECT_TRUE(
        same_answer("(" + a + ")(" + b + "+" + c + ")", "(" + a + ")(" + c + ")+(" + b + ")(" + a + ")"))
        << a << ", " << b << ", " << c;
    EXPECT_TRUE(same_answer(a + "-" + b, "-(" + b + "-" + a + ")")) << a << ", " << b;
    EXPECT_FALSE(same_answer(a, a + "+1")) << a;
  }
}

}  // namespace
}  // namespace trireme::answers
