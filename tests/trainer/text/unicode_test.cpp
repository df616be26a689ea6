// Normalization and word splitting against Hugging Face's tokenizers, over all code points.
#include "trainer/text/unicode.h"

#include <gtest/gtest.h>

#include "goldens.h"
#include "runtime/base/error.h"
#include "trainer/text/word_splitter.h"

namespace trireme::text {
namespace {

std::string nfc(const std::string& text) {
  std::string out;
  return unicode::normalize_nfc(text, out) ? out : text;
}

std::vector<std::string> words_of(const WordSplitter& splitter, std::string_view text) {
  std::vector<std::string_view> words;
  splitter.split(text, words);
  for (const auto word : words) EXPECT_FALSE(word.empty()) << text;
  return {words.begin(), words.end()};
}

void add_word_sizes(const WordSplitter& splitter, const std::string& text, Crc32& crc) {
  std::vector<std::string_view> words;
  splitter.split(text, words);
  for (const auto word : words) crc.add_number(static_cast<uint32_t>(word.size()));
}

TEST(NormalizeNfc, IsThatOfTokenizersForAllCodePoints) {
  const auto hashes = read_golden("unicode.json")["nfc_codes"];
  ASSERT_EQ(hashes.size(), 0x110u);
  for (uint32_t block = 0; block < hashes.size(); ++block) {
    Crc32 crc;
    for (const auto& c : codes_of_block(block))
      crc.add(nfc(c + "a" + c + "\u0345" + c + "\u0334" + c + "\u1161\u11A8"));
    EXPECT_EQ(crc.value(), hashes[block].get<uint32_t>()) << "U+" << std::hex << block << "000 to +FFF";
  }
}

TEST(NormalizeNfc, IsThatOfTokenizersForMixturesOfMarks) {
  const auto differ =
      blocks_that_differ(read_golden("unicode.json")["nfc_fuzz"], [](Crc32& crc, const std::string& text) {
        crc.add(nfc(text));
        crc.add("\n");
      });
  EXPECT_TRUE(differ.empty()) << testing::PrintToString(differ);
}

TEST(NormalizeNfc, LeavesTextThatIsNormalAlone) {
  std::string out = "untouched";
  for (const char* text : {"", "plain", "schön", "한국어", "\xFF\xC3"})
    EXPECT_FALSE(unicode::normalize_nfc(text, out)) << text;
  EXPECT_EQ(out, "untouched");
  EXPECT_EQ(nfc("é\u0323"), "\u1EB9\u0301");
  EXPECT_EQ(nfc("e\u0301\xFF"
                "e\u0301"),
            "\u00E9\xFF\u00E9");
}

class Splitters : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(Splitters, CutAsTokenizersDoesAroundAllCodePoints) {
  const auto splitter = make_splitter(GetParam().second);
  const auto hashes = read_golden("unicode.json")[std::string(GetParam().first) + "_codes"];
  for (uint32_t block = 0; block < hashes.size(); ++block) {
    Crc32 crc;
    for (const auto& c : codes_of_block(block))
      add_word_sizes(*splitter, "a" + c + "b1" + c + c + " " + c + "9\n" + c + "\n '" + c, crc);
    EXPECT_EQ(crc.value(), hashes[block].get<uint32_t>()) << "U+" << std::hex << block << "000 to +FFF";
  }
}

TEST_P(Splitters, CutAsTokenizersDoesInMixtures) {
  const auto splitter = make_splitter(GetParam().second);
  const auto differ =
      blocks_that_differ(read_golden("unicode.json")[std::string(GetParam().first) + "_fuzz"],
                         [&](Crc32& crc, const std::string& text) { add_word_sizes(*splitter, text, crc); });
  EXPECT_TRUE(differ.empty()) << testing::PrintToString(differ);
}

// PCRE2 knows an older Unicode, so only ASCII is compared.
TEST_P(Splitters, AgreeWithTheirRegularExpression) {
  const auto scanner = make_splitter(GetParam().second), regex = make_regex_splitter(GetParam().second);
  const auto alphabet = nlohmann::json::parse(
      R"([[97,122],[65,90],[48,57],[32,47],[9,13]," ","  ","\n","'s","'LL","'rE","\r\n"])");
  for (uint64_t i = 0; i < 20'000; ++i) {
    const std::string text = fuzz_text(alphabet, 7, i);
    ASSERT_EQ(words_of(*scanner, text), words_of(*regex, text)) << text;
  }
}

TEST_P(Splitters, CoverBytesThatAreNotUtf8) {
  const auto scanner = make_splitter(GetParam().second), regex = make_regex_splitter(GetParam().second);
  for (uint64_t i = 0; i < 2'000; ++i) {
    std::string text;
    for (uint64_t at = 0; at < 20; ++at) text += static_cast<char>(random_bits(3, i, at) & 0xFF);
    for (const auto* splitter : {scanner.get(), regex.get()}) {
      std::string joined;
      for (const auto& word : words_of(*splitter, text)) joined += word;
      ASSERT_EQ(joined, text);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Patterns, Splitters,
                         testing::Values(std::pair{"gpt2", kGpt2Regex}, std::pair{"llama3", kLlama3Regex},
                                         std::pair{"qwen2", kQwen2Regex}),
                         [](const auto& info) { return std::string(info.param.first); });

TEST(RegexSplitter, MakesWordsOfWhatTheExpressionDoesNotMatch) {
  const auto splitter = make_splitter(R"(\d+)");
  EXPECT_EQ(words_of(*splitter, "ab12c3"), (std::vector<std::string>{"ab", "12", "c", "3"}));
}

TEST(RegexSplitter, RefusesWhatPcre2WouldReadOtherwise) {
  for (const char* regex : {"(",
                            R"([a-z&&[^b]])",
                            R"(\h+)",
                            "[[a]b]",
                            "[[:alpha:]]",
                            R"(\w+)",
                            R"(\bthe\b)",
                            R"(\p{Alphabetic})",
                            R"(\p{N}{1,3}+)",
                            "(?m)^a",
                            "(*LIMIT_MATCH=9)a",
                            "a(?i)b|c",
                            R"(\v)",
                            R"(\xE9)",
                            "a{,3}",
                            R"([\b])",
                            R"(\pL)",
                            "(?",
                            "(?<",
                            R"(\)"})
    EXPECT_THROW(make_splitter(regex), Error) << regex;
  for (const char* regex : {R"([\[\]]+|[^\s]&&)", R"((?i:'s|'t)|(?=\p{Han})\p{^L}?(?!\S)|(?<=a)b++)",
                            "(?i)a|b", R"([^\p{Lu}\P{M}\x{1F600}]\x41\.\/)"})
    EXPECT_NO_THROW(make_splitter(regex)) << regex;
}

TEST(Utf8, RejectsWhatTheStandardRejects) {
  for (const char* text : {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
                           "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xE2\x82", "\xFF"})
    EXPECT_EQ(find_not_utf8(text), 0u);
  EXPECT_EQ(find_not_utf8("\u007F\u0080\u07FF\u0800\uD7FF\uE000\uFFFF\U00010000\U0010FFFF"),
            std::string::npos);
}

// The examples of the Unicode standard, tables 3-8 to 3-11.
TEST(Utf8, ReplacesMaximalParts) {
  EXPECT_EQ(replace_not_utf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"),
            "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\x41");
  EXPECT_EQ(replace_not_utf8("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"),
            "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\x41");
  EXPECT_EQ(replace_not_utf8("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"),
            "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\x41\uFFFD\uFFFD\x42");
  EXPECT_EQ(replace_not_utf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), "\uFFFD\uFFFD\uFFFD\uFFFD\x41");
}

}  // namespace
}  // namespace trireme::text
