// The Qwen2 vocabulary with the pre-tokenizers of several families against Hugging Face's tokenizers, over
// all code points, their pairs, random texts and all of GSM8K: ids in both modes of parsing, and decoded
// texts. The inputs are generated here as tools/make_goldens/tokenizer_proof.py does; it says how to find the
// first difference of a block whose sum differs.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "goldens.h"
#include "trainer/text/stream_decoder.h"
#include "trainer/text/tokenizer.h"

namespace trireme::text {
namespace {

using Ids = std::vector<int32_t>;
using Json = nlohmann::json;
using Texts = std::vector<std::string>;

const Json& golden() {
  static const Json read = read_golden("tokenizer_proof.json");
  return read;
}

uint64_t number(const char* key) {
  return golden()[key].get<uint64_t>();
}

// The Qwen2 tokenizer with another pre-tokenizer.
std::shared_ptr<const Tokenizer> load(const std::string& variant) {
  static std::map<std::string, std::shared_ptr<const Tokenizer>> loaded;
  auto& tokenizer = loaded[variant];
  if (tokenizer != nullptr) return tokenizer;
  Json content = Json::parse(files::read(test_data("tokenizers/qwen2/tokenizer.json")));
  Json parts = golden()["pre_tokenizers"][variant];
  const auto& with_regex = golden()["use_regex"];
  const bool use_regex = std::find(with_regex.begin(), with_regex.end(), variant) != with_regex.end();
  parts.push_back({{"type", "ByteLevel"},
                   {"add_prefix_space", false},
                   {"trim_offsets", false},
                   {"use_regex", use_regex}});
  content["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", parts}};
  const std::string folder = testing::TempDir() + "trireme_proof_" + variant + "/";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "tokenizer.json", std::ios::binary) << content.dump();
  std::filesystem::copy_file(test_data("tokenizers/qwen2/tokenizer_config.json"),
                             folder + "tokenizer_config.json",
                             std::filesystem::copy_options::overwrite_existing);
  tokenizer = Tokenizer::from_folder(folder);
  std::filesystem::remove_all(folder);
  return tokenizer;
}

Texts pairs_of(uint64_t block) {
  Texts texts;
  for (const std::string& c : codes_of_block(static_cast<uint32_t>(block)))
    texts.insert(texts.end(), {c, c + "a", "a" + c, c + "1", "1" + c, c + " ", " " + c});
  return texts;
}

Texts mixtures_of(uint64_t block) {
  Texts texts;
  for (const std::string& c : codes_of_block(static_cast<uint32_t>(block)))
    texts.push_back("a" + c + "b1" + c + c + " " + c + "9\n" + c + "\n '" + c);
  return texts;
}

Texts random_texts_of(uint64_t block) {
  Texts texts;
  const auto& alphabet = golden()["alphabet"];
  const uint64_t seed = number("seed"), size = number("random_block");
  for (uint64_t index = block * size; index < (block + 1) * size; ++index) {
    std::string text;
    const uint64_t length = 1 + below(random_bits(seed, index, 0), 24);
    for (uint64_t i = 1; i <= length; ++i) {
      const Json& item = alphabet[below(random_bits(seed, index, 2 * i), alphabet.size())];
      const uint64_t bits = random_bits(seed, index, 2 * i + 1);
      if (item.is_number()) {
        for (uint64_t byte = 0; byte < item.get<uint64_t>(); ++byte)
          text += static_cast<char>(bits >> (8 * byte) & 0xFF);
      } else if (item.is_string()) {
        text += item.get_ref<const std::string&>();
      } else {
        const auto first = item[0].get<uint32_t>(), last = item[1].get<uint32_t>();
        append_utf8(text, first + static_cast<uint32_t>(below(bits, last - first + 1)));
      }
    }
    texts.push_back(replace_not_utf8(std::move(text)));
  }
  return texts;
}

Texts gsm8k_of(uint64_t block) {
  static const Texts all = [] {
    Texts texts;
    const std::string lines = files::read(test_data("gsm8k/train.jsonl"));
    for (size_t begin = 0; begin < lines.size();) {
      const size_t end = lines.find('\n', begin);
      const auto row = Json::parse(lines.substr(begin, end - begin));
      begin = end + 1;
      for (const char* key : {"question", "answer"}) texts.push_back(row[key]);
    }
    return texts;
  }();
  const size_t begin = block * 1000, end = std::min(all.size(), begin + 1000);
  return {all.begin() + static_cast<ptrdiff_t>(begin), all.begin() + static_cast<ptrdiff_t>(end)};
}

void add_numbers(Crc32& crc, const Ids& ids) {
  crc.add({reinterpret_cast<const char*>(ids.data()), 4 * ids.size()});
}

uint32_t sum_of_texts(const Tokenizer& tokenizer, const Texts& texts) {
  Crc32 crc;
  for (const std::string& text : texts) {
    const Ids ids = tokenizer.encode(text);
    crc.add_number(static_cast<uint32_t>(ids.size()));
    add_numbers(crc, ids);
    add_numbers(crc, tokenizer.encode(text, false));
    crc.add(tokenizer.decode(ids, false));
  }
  return crc.value();
}

// Random ids, some of no token; in the last block, one by one.
std::vector<Ids> sequences_of(uint64_t block, uint64_t num_blocks) {
  std::vector<Ids> sequences;
  const uint64_t max_id = number("max_id"), seed = number("decode_seed"), size = number("decoded_block");
  if (block + 1 == num_blocks)
    for (uint64_t id = 0; id < max_id; ++id) sequences.push_back({static_cast<int32_t>(id)});
  else
    for (uint64_t index = block * size; index < (block + 1) * size; ++index) {
      Ids& ids = sequences.emplace_back();
      const uint64_t length = 1 + below(random_bits(seed, index, 0), 16);
      for (uint64_t i = 1; i <= length; ++i)
        ids.push_back(static_cast<int32_t>(below(random_bits(seed, index, i), max_id)));
    }
  return sequences;
}

uint32_t sum_of_sequences(const Tokenizer& tokenizer, const std::vector<Ids>& sequences) {
  Crc32 crc;
  for (const Ids& ids : sequences)
    crc.add(tokenizer.decode(ids) + "\n" + tokenizer.decode(ids, false) + "\n");
  return crc.value();
}

// The blocks whose sums differ. All threads use one tokenizer.
std::vector<uint64_t> differing_blocks(const Json& sums, const std::function<uint32_t(uint64_t)>& sum_of) {
  std::vector<uint64_t> differ;
  std::mutex mutex;
  std::atomic<uint64_t> next{0};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::clamp(std::thread::hardware_concurrency(), 2u, 8u); ++i)
    threads.emplace_back([&] {
      for (uint64_t block = next++; block < sums.size(); block = next++)
        if (sum_of(block) != sums[block].get<uint32_t>()) {
          const std::lock_guard lock(mutex);
          differ.push_back(block);
        }
    });
  for (auto& thread : threads) thread.join();
  std::sort(differ.begin(), differ.end());
  return differ;
}

class TokenizerProof : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    for (const char* name : {"tokenizers/qwen2/tokenizer.json", "gsm8k/train.jsonl"})
      if (test_data(name).empty())
        GTEST_SKIP() << name << ": TRIREME_TEST_DATA does not name a folder that has it";
  }

  void compare(const std::string& section, const std::function<Texts(uint64_t)>& texts_of) {
    const std::string variant = GetParam();
    const Json& sums = golden()["sums"][section];
    if (!sums.contains(variant)) GTEST_SKIP() << section << " is not compared for " << variant;
    const auto tokenizer = load(variant);
    const auto differ = differing_blocks(
        sums[variant], [&](uint64_t block) { return sum_of_texts(*tokenizer, texts_of(block)); });
    EXPECT_TRUE(differ.empty()) << "tools/make_goldens/tokenizer_proof.py $TRIREME_TEST_DATA --show "
                                << section << " " << variant
                                << " BLOCK, of these: " << testing::PrintToString(differ);
  }
};

TEST_P(TokenizerProof, CoversAllCodePointsAndTheirPairs) {
  compare("pairs", pairs_of);
}
TEST_P(TokenizerProof, CoversAllCodePointsAmidText) {
  compare("mixtures", mixtures_of);
}
TEST_P(TokenizerProof, CoversRandomTexts) {
  compare("random", random_texts_of);
}
TEST_P(TokenizerProof, CoversGsm8k) {
  gsm8k_of(0);  // read before there are threads
  compare("gsm8k", gsm8k_of);
}

TEST_P(TokenizerProof, CoversDecodingOfEveryIdAndOfRandomOnes) {
  const Json& sums = golden()["sums"]["decode"];
  if (!sums.contains(GetParam())) GTEST_SKIP() << "decoding does not depend on the pre-tokenizer";
  const auto tokenizer = load(GetParam());
  const auto differ = differing_blocks(sums[GetParam()], [&](uint64_t block) {
    return sum_of_sequences(*tokenizer, sequences_of(block, sums[GetParam()].size()));
  });
  EXPECT_TRUE(differ.empty()) << "--show decode " << GetParam()
                              << " BLOCK, of these: " << testing::PrintToString(differ);
}

TEST_P(TokenizerProof, CoversDecodingAsAStream) {
  const auto tokenizer = load(GetParam());
  for (uint64_t block = 0; block < 4; ++block)
    for (const Ids& ids : sequences_of(block, 100)) {
      StreamDecoder stream(*tokenizer);
      std::string text;
      for (const int32_t id : ids) {
        const std::string piece = stream.add(id);
        ASSERT_EQ(find_not_utf8(piece), std::string::npos);
        text += piece;
      }
      ASSERT_EQ(text + stream.finish(), tokenizer->decode(ids)) << testing::PrintToString(ids);
    }
}

INSTANTIATE_TEST_SUITE_P(PreTokenizers, TokenizerProof,
                         testing::Values("qwen2", "llama3", "gpt2", "deepseek", "o200k", "smollm"),
                         [](const auto& info) { return std::string(info.param); });

// What --show wrote, text by text.
TEST(TokenizerProofBlock, IsThatOfTokenizers) {
  const char* path = std::getenv("TRIREME_TOKENIZER_BLOCK");
  if (path == nullptr) GTEST_SKIP() << "TRIREME_TOKENIZER_BLOCK does not name what --show wrote";
  std::ifstream lines(path);
  for (std::string line; std::getline(lines, line);) {
    const Json expected = Json::parse(line);
    const auto tokenizer = load(expected["variant"]);
    const auto ids = expected["ids"].get<Ids>();
    if (expected.contains("text")) {
      const auto text = expected["text"].get<std::string>();
      ASSERT_EQ(tokenizer->encode(text), ids) << expected["text"];
      ASSERT_EQ(tokenizer->encode(text, false), expected["ids_as_text"].get<Ids>()) << expected["text"];
    } else {
      ASSERT_EQ(tokenizer->decode(ids), expected["without_special"]) << expected["ids"];
    }
    ASSERT_EQ(tokenizer->decode(ids, false), expected["decoded"]) << expected["ids"];
  }
}

}  // namespace
}  // namespace trireme::text
