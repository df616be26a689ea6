#include "trainer/rollout/stop_condition.h"

#include <gtest/gtest.h>

#include <string>

namespace trireme::rollout {
namespace {

const std::vector<std::string> kTexts = {"He", "llo",      " wor",  "ld",         "\n",
                                         "",   "\xe2\x82", "\xac!", "Hello world"};

class Text {
 public:
  explicit Text(std::vector<std::string> stop, const std::vector<int32_t>& stop_ids = {})
      : stop_(std::move(stop)), condition_(stop_ids, static_cast<int64_t>(kTexts.size())) {
    condition_.set_token_text([](int32_t token) -> std::string_view { return kTexts.at(token); });
  }
  /// How many of the tokens are made.
  size_t length(const std::vector<int32_t>& tokens) {
    response_ = {};
    for (const int32_t token : tokens) {
      response_.tokens.push_back(token);
      if (condition_.is_met(stop_, response_)) break;
    }
    return response_.tokens.size();
  }
  int64_t text_length() const { return response_.text_length; }
  int32_t stop_string() const { return response_.stop_string; }

 private:
  std::vector<std::string> stop_;
  StopCondition condition_;
  Response response_;
};

TEST(StopCondition, EndsWithTheTokenThatCompletesAString) {
  Text within({"ll"});
  EXPECT_EQ(within.length({0, 1, 2}), 2u);
  EXPECT_EQ(within.text_length(), 2);
  Text across({"o wo"});
  EXPECT_EQ(across.length({0, 1, 2, 3}), 3u);
  EXPECT_EQ(across.text_length(), 4);
  Text over_many({"Hello world\n"});
  EXPECT_EQ(over_many.length({4, 0, 5, 1, 5, 2, 3, 4, 4}), 8u);
  EXPECT_EQ(over_many.text_length(), 1);
  Text never({"xyz"});
  EXPECT_EQ(never.length({0, 1, 2, 3}), 4u);
  EXPECT_EQ(never.text_length(), -1);
  EXPECT_EQ(never.stop_string(), -1);
}

TEST(StopCondition, SeesCharactersThatTokensCutInTwo) {
  Text euro({"\xe2\x82\xac"});
  EXPECT_EQ(euro.length({0, 6, 7, 1}), 3u);
  EXPECT_EQ(euro.text_length(), 2);
  EXPECT_EQ(euro.length({0, 6, 1, 7}), 4u);
  EXPECT_EQ(euro.text_length(), -1);
}

TEST(StopCondition, TakesTheStringThatIsCompleteFirstThenTheLongest) {
  Text first({"world", "lo"});
  EXPECT_EQ(first.length({8}), 1u);
  EXPECT_EQ(first.stop_string(), 1);
  EXPECT_EQ(first.text_length(), 3);
  Text longest({"o", "llo"});
  EXPECT_EQ(longest.length({8}), 1u);
  EXPECT_EQ(longest.stop_string(), 1);
  EXPECT_EQ(longest.text_length(), 2);
}

TEST(StopCondition, StopTokensNeedNoText) {
  Text text({}, {2, -1, 900});
  EXPECT_EQ(text.length({0, 1, 2, 3}), 3u);
  EXPECT_EQ(text.stop_string(), -1);
  EXPECT_FALSE(StopCondition({1}, 2).has_token_text());
}

TEST(StopCondition, AStringOfEarlierTokensAloneDoesNotCountAgain) {
  Text text({"\n"});
  EXPECT_EQ(text.length({0, 5, 5, 1}), 4u);
  EXPECT_EQ(text.length({0, 4, 1}), 2u);
}

}  // namespace
}  // namespace trireme::rollout
