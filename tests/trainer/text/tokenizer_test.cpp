#include "trainer/text/tokenizer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "runtime/base/counter_random.h"
#include "runtime/base/error.h"
#include "trainer/text/stream_decoder.h"
#include "trainer/text/utf8.h"

namespace trireme::text {
namespace {

using Ids = std::vector<int32_t>;

TEST(ByteTokenizer, GivesEachByteItsOwnId) {
  const auto tokenizer = Tokenizer::bytes();
  EXPECT_EQ(tokenizer->encode("a b\n"), (Ids{'a', ' ', 'b', '\n'}));
  EXPECT_EQ(tokenizer->encode("é"), (Ids{0xC3, 0xA9}));
  for (int byte = 0; byte < 256; ++byte)
    EXPECT_EQ(tokenizer->encode(std::string(1, static_cast<char>(byte))), Ids{byte});
  EXPECT_TRUE(tokenizer->encode("").empty());
}

TEST(ByteTokenizer, NamesItsSpecialTokens) {
  const auto tokenizer = Tokenizer::bytes();
  EXPECT_EQ(tokenizer->vocab_size(), 259);
  EXPECT_EQ(tokenizer->eos_id(), 256);
  EXPECT_EQ(tokenizer->pad_id(), 256);
  EXPECT_EQ(tokenizer->stop_ids(), Ids{256});
  EXPECT_EQ(tokenizer->encode("<|im_start|>x<|im_end|><|endoftext|>"), (Ids{257, 'x', 258, 256}));
  EXPECT_EQ(tokenizer->encode("<|im_end|>", false).size(), 10u);
}

TEST(ByteTokenizer, DecodesToValidUtf8) {
  const auto tokenizer = Tokenizer::bytes();
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("Größe 漢字 🦙")), "Größe 漢字 🦙");
  EXPECT_EQ(tokenizer->decode(Ids{'a', 0xE6, 0xBC, 'b'}), "a\uFFFDb");
  EXPECT_EQ(tokenizer->decode(Ids{0xFF, 0xFE}), "\uFFFD\uFFFD");
  EXPECT_EQ(tokenizer->decode(Ids{'7', '2', 256}), "72");
  EXPECT_EQ(tokenizer->decode(Ids{'7', '2', 256}, false), "72<|endoftext|>");
  EXPECT_EQ(tokenizer->decode(Ids{'7', 259, '2', 300}), "72");  // ids that only fill up an embedding
  EXPECT_THROW(tokenizer->decode(Ids{-1}), Error);
}

TEST(StreamDecoder, GivesWholeCharacters) {
  StreamDecoder stream(*Tokenizer::bytes());
  EXPECT_EQ(stream.add('a'), "a");
  EXPECT_EQ(stream.add(0xF0), "");
  EXPECT_EQ(stream.add(0x9F), "");
  EXPECT_EQ(stream.add(0x98), "");
  EXPECT_EQ(stream.add(256), "");  // special: nothing comes between
  EXPECT_EQ(stream.add(0x80), "\U0001F600");
  EXPECT_EQ(stream.add(0xE2), "");
  EXPECT_EQ(stream.add(0x82), "");
  EXPECT_EQ(stream.add('b'), "\uFFFDb");
  EXPECT_EQ(stream.add(0xC3), "");
  EXPECT_EQ(stream.finish(), "\uFFFD");
  EXPECT_EQ(stream.finish(), "");
  EXPECT_EQ(stream.add(0xA9), "\uFFFD");  // a new text
}

// Bytes at random, and those that begin and continue characters more often than chance would have it.
TEST(StreamDecoder, GivesWhatDecodeGivesPieceByPiece) {
  const auto tokenizer = Tokenizer::bytes();
  const std::vector<int32_t> likely{0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC2, 0xDF, 0xE0, 0xE1, 0xED,
                                    0xEF, 0xF0, 0xF1, 0xF4, 0xF5, 0xC1, 'a',  256,  258,  300};
  for (uint64_t i = 0; i < 20'000; ++i) {
    const bool skip_special = random_bits(1, i, 1) % 2 == 0;
    Ids ids;
    for (uint64_t at = 2; at < 2 + random_bits(1, i, 0) % 20; ++at) {
      const uint64_t bits = random_bits(1, i, at);
      ids.push_back(bits % 2 == 0 ? static_cast<int32_t>(bits >> 8 & 0xFF)
                                  : likely[(bits >> 8) % likely.size()]);
    }
    StreamDecoder stream(*tokenizer, skip_special);
    std::string text;
    for (const int32_t id : ids) {
      const std::string piece = stream.add(id);
      ASSERT_EQ(find_not_utf8(piece), std::string::npos);
      text += piece;
    }
    ASSERT_EQ(text + stream.finish(), tokenizer->decode(ids, skip_special)) << testing::PrintToString(ids);
  }
}

TEST(ByteTokenizer, IsTheSameAfterSaveAndLoad) {
  const std::string folder = testing::TempDir() + "trireme_byte_tokenizer";
  std::filesystem::create_directories(folder);
  Tokenizer::bytes()->save(folder);
  const auto loaded = Tokenizer::from_folder(folder);
  const std::string text = "Tom has 47 pens.\n\tGröße<|im_end|>";
  EXPECT_EQ(loaded->encode(text), Tokenizer::bytes()->encode(text));
  EXPECT_EQ(loaded->vocab_size(), 259);
  EXPECT_EQ(loaded->eos_id(), 256);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace trireme::text
