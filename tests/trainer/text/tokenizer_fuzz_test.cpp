// Damaged and hostile tokenizer files: an error that says what is wrong, or a tokenizer that works; never a
// crash, a hang or a huge allocation.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>

#include "goldens.h"
#include "runtime/base/error.h"
#include "trainer/text/stream_decoder.h"
#include "trainer/text/tokenizer.h"

namespace trireme::text {
namespace {

using Ids = std::vector<int32_t>;
using Json = nlohmann::json;

class TokenizerFuzz : public testing::Test {
 protected:
  TokenizerFuzz() {
    folder_ =
        testing::TempDir() + "trireme_" + testing::UnitTest::GetInstance()->current_test_info()->name() + "/";
    std::filesystem::create_directories(folder_);
    write("tokenizer_config.json", R"({"eos_token": "<|endoftext|>"})");
  }
  ~TokenizerFuzz() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, const std::string& content) {
    std::ofstream(folder_ + name, std::ios::binary) << content;
  }

  // Reads the file, uses what it gives, and counts what came of it.
  void try_file(const std::string& content) {
    write("tokenizer.json", content);
    try {
      const auto tokenizer = Tokenizer::from_folder(folder_);
      ++num_accepted_;
      for (const std::string& text : texts_) {
        const Ids ids = tokenizer->encode(text);
        tokenizer->encode(text, false);
        tokenizer->with_special_tokens(ids);
        StreamDecoder stream(*tokenizer);
        std::string streamed;
        for (const int32_t id : ids) streamed += stream.add(id);
        ASSERT_EQ(streamed + stream.finish(), tokenizer->decode(ids));
      }
      tokenizer->decode(Ids{0, 511, tokenizer->vocab_size() - 1, tokenizer->vocab_size()}, false);
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::invalid_config) << error.message();
      ASSERT_LT(error.message().size(), 100'000u);
      ++num_refused_;
    }
  }

  uint64_t draw(uint64_t n) { return below(random_bits(31, stream_, counter_++), n); }

  // Any value in the tree, but seldom in the vocabulary and the merges, which are nearly all of it.
  Json* any_value(Json& root) {
    Json* value = &root;
    while (value->is_structured() && !value->empty() && (value == &root || draw(8) != 0)) {
      auto child = value->begin();
      std::advance(child, static_cast<ptrdiff_t>(draw(value->size())));
      value = &*child;
    }
    return value;
  }

  Json any_json() {
    static const std::vector<Json> values{nullptr,
                                          true,
                                          false,
                                          0,
                                          -1,
                                          511,
                                          512,
                                          1'048'575,
                                          1'048'576,
                                          4'294'967'295u,
                                          INT64_MAX,
                                          INT64_MIN,
                                          UINT64_MAX,
                                          1e300,
                                          -0.0,
                                          "",
                                          " ",
                                          "a",
                                          "the",
                                          "\u0120",
                                          "ByteLevel",
                                          "Sequence",
                                          "Split",
                                          "\xF4\x8F\xBF\xBF",
                                          "<|endoftext|>",
                                          std::string(10'000, 'a'),
                                          Json::array(),
                                          Json::object(),
                                          Json{"a", "b"},
                                          Json{"t", "he"},
                                          Json{{"Regex", "(a|aa)+$"}},
                                          Json{{"Regex", "(?<x>a\\g<x>?)*b"}},
                                          Json{{"String", "a"}},
                                          Json{{"type", "NFC"}},
                                          Json{{"id", 3}, {"content", "a"}, {"normalized", true}}};
    return values[draw(values.size())];
  }

  void mutate(Json& root) {
    Json* value = any_value(root);
    switch (draw(6)) {
      case 0:
      case 1:
        *value = any_json();
        break;
      case 2: {
        const Json other = *any_value(root);
        *value = other;
        break;
      }
      case 3:
        if (value->is_array()) value->push_back(any_json());
        if (value->is_object()) (*value)[any_json().dump()] = any_json();
        break;
      case 4:
        if (value->is_array() && !value->empty()) value->erase(draw(value->size()));
        if (value->is_object() && !value->empty()) value->erase(value->begin());
        break;
      case 5: {  // around what it was
        const Json inner = *value;
        *value = draw(2) == 0 ? Json{inner, inner} : Json{{"type", "Sequence"}, {"pretokenizers", {inner}}};
        break;
      }
    }
  }

  std::string folder_;
  const std::vector<std::string> texts_{
      "",
      "the rain, it's 123 and\n\n  <|im_end|> the\t\tend ",
      std::string(200, 'a') + "!",
      std::string(100, ' ') + "x" + std::string(60, '9'),
      "e\u0301 \u1100\u1161\u11A8 漢字 \U0001F468\u200D\U0001F469 \uFFFD\xFF\xE2\x82 <m> tok",
  };
  uint64_t stream_ = 0, counter_ = 0;
  int64_t num_accepted_ = 0, num_refused_ = 0;
};

TEST_F(TokenizerFuzz, OfTheTree) {
  const Json whole = read_golden("small_tokenizer.json");
  const Json variants = read_golden("small_variants.json")["variants"];
  for (stream_ = 0; stream_ < 6'000; ++stream_) {
    counter_ = 0;
    Json changed = whole;
    if (draw(2) == 0) changed.update(variants[draw(variants.size())]);
    const uint64_t num_changes = 1 + draw(3);
    for (uint64_t i = 0; i < num_changes; ++i)
      mutate(draw(4) == 0 ? changed : changed[draw(2) == 0 ? "model" : "pre_tokenizer"]);
    SCOPED_TRACE(stream_);
    try_file(changed.dump());
    if (HasFatalFailure()) return;
  }
  printf("accepted %ld, refused %ld\n", static_cast<long>(num_accepted_), static_cast<long>(num_refused_));
  EXPECT_GT(num_accepted_, 500);
  EXPECT_GT(num_refused_, 500);
}

TEST_F(TokenizerFuzz, OfTheBytes) {
  const std::string whole = read_golden("small_tokenizer.json").dump();
  for (stream_ = 10'000; stream_ < 16'000; ++stream_) {
    counter_ = 0;
    std::string changed = whole;
    const uint64_t num_changes = 1 + draw(4);
    for (uint64_t i = 0; i < num_changes; ++i) {
      const size_t at = draw(changed.size()), size = 1 + draw(20);
      // Half of them where the vocabulary is not.
      const size_t place = draw(2) == 0 ? at : at % 1500;
      switch (draw(5)) {
        case 0:
          changed[place] = static_cast<char>(draw(256));
          break;
        case 1:
          changed.erase(place, size);
          break;
        case 2:
          changed.insert(place, changed.substr(draw(changed.size()), size));
          break;
        case 3:
          changed[place] = "{}[],:\"\\09eE-+."[draw(15)];
          break;
        case 4:
          if (draw(8) == 0) changed.resize(at);
          break;
      }
    }
    SCOPED_TRACE(stream_);
    try_file(changed);
    if (HasFatalFailure()) return;
  }
  printf("accepted %ld, refused %ld\n", static_cast<long>(num_accepted_), static_cast<long>(num_refused_));
  EXPECT_GT(num_refused_, 500);
}

TEST_F(TokenizerFuzz, OfExpressionsThatBacktrackWithoutEnd) {
  const Json whole = read_golden("small_tokenizer.json");
  const std::string deep = std::string(20'000, '(') + "a" + std::string(20'000, ')');
  std::string alternatives = "a";
  for (int i = 0; i < 5'000; ++i) alternatives += "|" + std::string(static_cast<size_t>(i % 50), 'a') + "b";
  for (const std::string& regex : std::vector<std::string>{"(a+)+$b",
                                                           "(a|a)*b",
                                                           "(a|aa)+$",
                                                           "(?:a*)*b",
                                                           "(a*a*)*b",
                                                           "(x+x+)+y",
                                                           "(.*)*!!",
                                                           "(?:\\s*)*y",
                                                           "(\\s+\\s+)+y",
                                                           "(a+)+\\1b",
                                                           "(?=(a+)+b)",
                                                           "(?<=a)(a+)+b",
                                                           "(?:(?:a?){30}){30}b",
                                                           "(a{1,1000}){1,1000}b",
                                                           "a{1,65535}",
                                                           "(((a{1,500}){1,500}){1,500})",
                                                           "(?<x>a\\g<x>?)*b",
                                                           "(?<x>\\g<x>)",
                                                           "(?R)",
                                                           "()*",
                                                           "(|a)*",
                                                           "(?:)+",
                                                           "a*?b",
                                                           "(?>a+)+b",
                                                           "((a?)(a?)(a?)(a?))+b",
                                                           "(?i:A+)+b",
                                                           "[^b]*[^b]*[^b]*[^b]*b",
                                                           "\\p{L}*\\p{L}*\\p{L}*\\p{L}*1",
                                                           "\\Ka",
                                                           "(?=a\\K)",
                                                           "(?=aaa\\K)",
                                                           "(?<=\\Ka)",
                                                           "$*",
                                                           "^*",
                                                           "\\G*",
                                                           deep,
                                                           alternatives,
                                                           std::string(1 << 20, 'a'),
                                                           std::string(1 << 16, '[')}) {
    for (const char* behavior : {"Isolated", "Removed", "MergedWithNext"}) {
      Json changed = whole;
      changed["pre_tokenizer"]["pretokenizers"][0] = {
          {"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", behavior}, {"invert", false}};
      SCOPED_TRACE(regex.substr(0, 60));
      try_file(changed.dump());
      if (HasFatalFailure()) return;
    }
  }
  printf("accepted %ld, refused %ld\n", static_cast<long>(num_accepted_), static_cast<long>(num_refused_));
}

TEST_F(TokenizerFuzz, OfDepthAndSize) {
  const std::string whole = read_golden("small_tokenizer.json").dump();
  const size_t n = 1'000'000;
  std::string objects;
  for (size_t i = 0; i < n; ++i) objects += "{\"a\":";
  for (const std::string& content :
       {std::string(n, '['), std::string(n, '[') + std::string(n, ']'), objects,
        objects + "1" + std::string(n, '}'),
        "{\"model\":{\"vocab\":" + objects + "1" + std::string(n, '}') + "}}",
        "{\"model\":{\"merges\":" + std::string(n, '[') + std::string(n, ']') + "}}",
        "{\"added_tokens\":" + std::string(n, '[') + std::string(n, ']') + "}",
        whole + std::string(n, ' ') + "x", std::string(n, ' '), std::string(n, '\0'), std::string(),
        "\"" + std::string(n, 'a') + "\"", "{\"model\":{\"merges\":[" + std::string(n, ',') + "]}}"}) {
    try_file(content);
    if (HasFatalFailure()) return;
  }
  EXPECT_EQ(num_accepted_, 0);

  // As deep, in the files beside it.
  for (const char* name :
       {"tokenizer_config.json", "special_tokens_map.json", "generation_config.json", "config.json"}) {
    write(name, "{\"added_tokens_decoder\":" + std::string(n, '[') + std::string(n, ']') + "}");
    try_file(whole);
    write(name, "{\"added_tokens_decoder\":{\"" + std::string(n, '[') + "\":1}}");
    try_file(whole);
    write(name, "{\"eos_token\": \"<|endoftext|>\"}");
    if (HasFatalFailure()) return;
  }
}

// The last test of this file: over all of them.
TEST(TokenizerFuzzMemory, StaysWithinBounds) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  printf("peak memory: %ld MiB\n", usage.ru_maxrss / 1024);
  EXPECT_LT(usage.ru_maxrss, 2 * 1024 * 1024);  // KiB; sanitizers keep what was freed
}

}  // namespace
}  // namespace trireme::text
