// The Qwen2 vocabulary against Hugging Face's tokenizers. TRIREME_TEST_DATA names the folder that has it.
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "goldens.h"
#include "trainer/text/tokenizer.h"

namespace trireme::text {
namespace {

using Ids = std::vector<int32_t>;

class Qwen2Tokenizer : public testing::Test {
 protected:
  void SetUp() override {
    const std::string folder = test_data("tokenizers/qwen2");
    if (folder.empty())
      GTEST_SKIP() << "tokenizers/qwen2: TRIREME_TEST_DATA does not name a folder that has it";
    static const auto loaded = Tokenizer::from_folder(folder);
    tokenizer_ = loaded;
  }
  std::shared_ptr<const Tokenizer> tokenizer_;
};

TEST_F(Qwen2Tokenizer, GivesTheIdsOfThePublishedVectors) {
  const std::string path = test_data("tokenizers/vectors/qwen2.json");
  if (path.empty()) GTEST_SKIP() << "tokenizers/vectors/qwen2.json: not in TRIREME_TEST_DATA";
  const auto vectors = nlohmann::json::parse(files::read(path));
  EXPECT_GE(vectors.size(), 20u);
  for (const auto& vector : vectors)
    EXPECT_EQ(tokenizer_->encode(vector["text"].get<std::string>()), vector["ids"].get<Ids>())
        << vector["text"];
}

TEST_F(Qwen2Tokenizer, GivesTheIdsOfTokenizers) {
  const auto goldens = read_golden("qwen2_ids.json");
  for (const auto& golden : goldens["texts"])
    EXPECT_EQ(tokenizer_->encode(golden["text"].get<std::string>()), golden["ids"].get<Ids>())
        << golden["text"];
}

TEST_F(Qwen2Tokenizer, GivesTheIdsOfTokenizersForFuzzedTexts) {
  const auto differ =
      blocks_that_differ(read_golden("qwen2_ids.json")["fuzz"], [&](Crc32& crc, const std::string& text) {
        for (const int32_t id : tokenizer_->encode(text)) crc.add_number(static_cast<uint32_t>(id));
      });
  EXPECT_TRUE(differ.empty()) << testing::PrintToString(differ);
}

TEST_F(Qwen2Tokenizer, GivesTheIdsOfTokenizersForGsm8kAndDecodesThemBack) {
  const std::string path = test_data("gsm8k/train.jsonl");
  if (path.empty()) GTEST_SKIP() << "gsm8k/train.jsonl: not in TRIREME_TEST_DATA";
  const auto golden = read_golden("qwen2_ids.json")["gsm8k"];
  const std::string lines = files::read(path);
  Crc32 crc;
  size_t num_ids = 0;
  for (size_t begin = 0; begin < lines.size();) {
    const size_t end = lines.find('\n', begin);
    const auto row = nlohmann::json::parse(lines.substr(begin, end - begin));
    begin = end + 1;
    for (const char* key : {"question", "answer"}) {
      const auto text = row[key].get<std::string>();
      const Ids ids = tokenizer_->encode(text);
      num_ids += ids.size();
      for (const int32_t id : ids) crc.add_number(static_cast<uint32_t>(id));
      ASSERT_EQ(tokenizer_->decode(ids), text);
    }
  }
  EXPECT_EQ(num_ids, golden["num_ids"].get<size_t>());
  EXPECT_EQ(crc.value(), golden["crc"].get<uint32_t>());
}

TEST_F(Qwen2Tokenizer, DecodesRandomIdsAsTokenizersDoes) {
  const auto golden = read_golden("qwen2_ids.json")["decode"];
  Crc32 crc;
  for (uint64_t text = 0; text < golden["num_texts"].get<uint64_t>(); ++text) {
    Ids ids;
    for (uint64_t i = 0; i < golden["length"].get<uint64_t>(); ++i)
      ids.push_back(static_cast<int32_t>(below(random_bits(golden["seed"].get<uint64_t>(), text, i),
                                               static_cast<uint64_t>(tokenizer_->vocab_size()))));
    crc.add(tokenizer_->decode(ids));
    crc.add("\n");
  }
  EXPECT_EQ(crc.value(), golden["crc"].get<uint32_t>());
}

TEST_F(Qwen2Tokenizer, TakesTheRolesOfTokensFromItsFiles) {
  EXPECT_EQ(tokenizer_->vocab_size(), 151'646);
  EXPECT_EQ(tokenizer_->eos_id(), 151'645);  // <|im_end|>, by tokenizer_config.json
  EXPECT_EQ(tokenizer_->pad_id(), 151'643);
}

TEST_F(Qwen2Tokenizer, IsTheSameAfterSaveAndLoad) {
  const std::string folder = testing::TempDir() + "trireme_qwen2_saved";
  std::filesystem::create_directories(folder);
  tokenizer_->save(folder);
  EXPECT_EQ(files::read(folder + "/tokenizer.json"),
            files::read(test_data("tokenizers/qwen2/tokenizer.json")));
  EXPECT_EQ(files::read(folder + "/chat_template.jinja"),
            files::read(test_data("tokenizers/qwen2/chat_template.jinja")));
  EXPECT_EQ(Tokenizer::from_folder(folder)->encode("Natalia sold 48/2 clips."),
            tokenizer_->encode("Natalia sold 48/2 clips."));
  std::filesystem::remove_all(folder);
}

TEST_F(Qwen2Tokenizer, GivesTheSameIdsInEveryThread) {
  const auto fuzz = read_golden("qwen2_ids.json")["fuzz"];
  std::vector<Ids> all(4);
  std::vector<std::thread> threads;
  for (Ids& ids : all)
    threads.emplace_back([&ids, &fuzz, this] {
      for (uint64_t i = 0; i < 500; ++i) {
        const Ids some = tokenizer_->encode(fuzz_text(fuzz["alphabet"], 8, i));
        ids.insert(ids.end(), some.begin(), some.end());
      }
    });
  for (auto& thread : threads) thread.join();
  for (const Ids& ids : all) EXPECT_EQ(ids, all[0]);
}

}  // namespace
}  // namespace trireme::text
