#include "trainer/data/tokenizer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "runtime/base/error.h"

namespace trireme::data {
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
}  // namespace trireme::data
