// Reading tokenizer.json and its companions: variants against Hugging Face's tokenizers, and bad files.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "goldens.h"
#include "runtime/base/error.h"
#include "trainer/text/tokenizer.h"

namespace trireme::text {
namespace {

using Ids = std::vector<int32_t>;
using Json = nlohmann::json;

class TokenizerFiles : public testing::Test {
 protected:
  TokenizerFiles() {
    folder_ =
        testing::TempDir() + "trireme_" + testing::UnitTest::GetInstance()->current_test_info()->name() + "/";
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~TokenizerFiles() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, const Json& content) { write_text(name, content.dump()); }
  void write_text(const std::string& name, const std::string& content) {
    std::ofstream(folder_ + name, std::ios::binary) << content;
  }

  // small_tokenizer.json with the change, and a token that ends texts.
  std::shared_ptr<const Tokenizer> load_small(const std::function<void(Json&)>& change = [](Json&) {}) {
    Json tokenizer = read_golden("small_tokenizer.json");
    change(tokenizer);
    write("tokenizer.json", tokenizer);
    write("tokenizer_config.json", {{"eos_token", "<|endoftext|>"}});
    return Tokenizer::from_folder(folder_);
  }

  std::string mistakes_of(const std::function<void()>& load) {
    try {
      load();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_config);
      return error.message();
    }
    ADD_FAILURE() << "accepted";
    return "";
  }
  std::string mistakes_of(const std::function<void(Json&)>& change) {
    return mistakes_of([&] { load_small(change); });
  }

  std::string folder_;
};

void expect_in(const std::string& part, const std::string& text) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in:\n" << text;
}

Json pre_tokenizer_of(const Json& component) {
  const Json byte_level{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  return {{"type", "Sequence"}, {"pretokenizers", {component, byte_level}}};
}

TEST_F(TokenizerFiles, OfEveryVariantGiveTheIdsOfTokenizers) {
  const Json golden = read_golden("small_ids.json");
  const auto& texts = golden["texts"];
  for (const auto& [name, variant] : golden["variants"].items()) {
    SCOPED_TRACE(name);
    const Json& patch = variant["patch"];
    const auto tokenizer = load_small([&](Json& content) {
      content.merge_patch(patch);
      // Here another component takes the place: keys of both would be a mixture.
      if (patch.contains("pre_tokenizer") && patch["pre_tokenizer"].contains("type"))
        content["pre_tokenizer"] = patch["pre_tokenizer"];
    });
    std::string decoded;
    for (size_t i = 0; i < texts.size(); ++i) {
      const auto text = texts[i].get<std::string>();
      const Ids ids = variant["ids"][i], as_text = variant["ids_as_text"].value(std::to_string(i), ids);
      EXPECT_EQ(tokenizer->encode(text), ids) << text;
      EXPECT_EQ(tokenizer->encode(text, false), as_text) << text;
      decoded += (i == 0 ? "" : "\n") + tokenizer->decode(ids);
    }
    Crc32 crc;
    crc.add(decoded);
    EXPECT_EQ(crc.value(), variant["decoded_crc"].get<uint32_t>());
  }
}

// Random pre-tokenizers, added tokens and post-processors (tools/make_goldens/tokenizer_variants.py).
TEST_F(TokenizerFiles, OfRandomVariantsGiveTheIdsOfTokenizers) {
  const Json golden = read_golden("small_variants.json");
  const auto& variants = golden["variants"];
  for (size_t v = 0; v < variants.size(); ++v) {
    const auto tokenizer = load_small([&](Json& content) {
      for (const char* key : {"pre_tokenizer", "normalizer", "post_processor"})
        content[key] = variants[v][key];
      for (const auto& token : variants[v]["added_tokens"]) content["added_tokens"].push_back(token);
      content["model"]["ignore_merges"] = variants[v]["ignore_merges"];
    });
    Crc32 crc;
    for (uint64_t i = 0; i < golden["num_texts"].get<uint64_t>(); ++i) {
      const std::string text = fuzz_text(golden["alphabet"], golden["seed"].get<uint64_t>() + v, i);
      const Ids ids = tokenizer->encode(text);
      crc.add_number(static_cast<uint32_t>(ids.size()));
      for (const Ids& some : {ids, tokenizer->encode(text, false), tokenizer->with_special_tokens(ids)})
        for (const int32_t id : some) crc.add_number(static_cast<uint32_t>(id));
      crc.add(tokenizer->decode(ids) + "\n" + tokenizer->decode(ids, false));
    }
    EXPECT_EQ(crc.value(), variants[v]["sum"].get<uint32_t>()) << "variant " << v << ": " << variants[v];
  }
}

// A text all of whose characters are in the byte alphabet is read as bytes, that of an added token too.
TEST_F(TokenizerFiles, DecodeAddedTokensAsTokenizersDoes) {
  const auto tokenizer = load_small([](Json& t) {
    t["added_tokens"].push_back({{"id", 512}, {"content", "<café>"}, {"special", false}});
    t["added_tokens"].push_back({{"id", 513}, {"content", "<café €>"}, {"special", false}});
  });
  EXPECT_EQ(tokenizer->encode("<café><café €>"), (Ids{512, 513}));
  EXPECT_EQ(tokenizer->decode(Ids{512, 513}), "<caf\uFFFD><café €>");
}

Json template_of(const Json& single) {
  return {{"type", "TemplateProcessing"},
          {"single", single},
          {"special_tokens", {{"begin", {{"ids", {510, 64}}}}, {"end", {{"ids", {509}}}}}}};
}

TEST_F(TokenizerFiles, SayWhatStandsAroundAText) {
  const Json text{{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const auto special = [](const char* name) { return Json{{"SpecialToken", {{"id", name}}}}; };
  const auto with = [&](const Json& processor, const Ids& ids) {
    return load_small([&](Json& t) { t["post_processor"] = processor; })->with_special_tokens(ids);
  };
  EXPECT_EQ(with(nullptr, {7}), Ids{7});
  EXPECT_EQ(with({{"type", "ByteLevel"}}, {7}), Ids{7});
  EXPECT_EQ(with(template_of({special("begin"), text}), {7}), (Ids{510, 64, 7}));
  EXPECT_EQ(with(template_of({text, special("end")}), {}), Ids{509});
  EXPECT_EQ(with({{"type", "BertProcessing"}, {"cls", {"a", 1}}, {"sep", {"b", 2}}}, {7}), (Ids{1, 7, 2}));
  const Json processors{{{"type", "ByteLevel"}}, template_of({special("begin"), text, special("end")})};
  EXPECT_EQ(with({{"type", "Sequence"}, {"processors", processors}}, {7}), (Ids{510, 64, 7, 509}));

  const auto refused = [&](const Json& processor) {
    return mistakes_of([&](Json& t) { t["post_processor"] = processor; });
  };
  expect_in("does not hold the text once", refused(template_of({special("begin")})));
  expect_in("does not hold the text once", refused(template_of({text, text})));
  expect_in("is not a piece of a template", refused(template_of({special("other"), text})));
  expect_in("cls is [\"a\"]", refused({{"type", "BertProcessing"}, {"cls", {"a"}}, {"sep", {"b", 2}}}));
  expect_in("600 is not the id of a token",
            refused({{"type", "BertProcessing"}, {"cls", {"a", 600}}, {"sep", {"b", 2}}}));
  expect_in("only one that adds tokens",
            refused({{"type", "Sequence"},
                     {"processors", {template_of(Json::array({text})), template_of(Json::array({text}))}}}));
}

// As transformers 5.23 reads them.
TEST_F(TokenizerFiles, OfTheConfigurationChangeTokensButAddNoneToATextAndCutNone) {
  Json config{{"eos_token", "<|endoftext|>"},
              {"bos_token", "<|im_start|>"},
              {"add_bos_token", true},
              {"add_eos_token", true}};
  load_small([](Json& t) { t["truncation"] = {{"max_length", 2}}; });
  write("tokenizer_config.json", config);
  auto tokenizer = Tokenizer::from_folder(folder_);
  EXPECT_EQ(tokenizer->encode("the rain"), (Ids{312, 452}));
  EXPECT_EQ(tokenizer->with_special_tokens({312, 452, 452}), (Ids{312, 452, 452}));

  EXPECT_EQ(tokenizer->encode("a <|im_end|>"), (Ids{64, 220, 511}));
  const Json token{{"content", "<|im_end|>"}, {"lstrip", true}, {"special", false}};
  config["added_tokens_decoder"] = {{"511", token}};
  config["pad_token"] = "the";  // of the vocabulary: cut out of texts like any added token
  write("tokenizer_config.json", config);
  tokenizer = Tokenizer::from_folder(folder_);
  EXPECT_EQ(tokenizer->encode("a <|im_end|>"), (Ids{64, 511}));
  EXPECT_EQ(tokenizer->decode(Ids{64, 511}), "a");  // once special, always special
  EXPECT_EQ(tokenizer->pad_id(), 312);
  EXPECT_EQ(tokenizer->encode("in the rain"), (Ids{263, 220, 312, 452}));

  config["added_tokens_decoder"] = {{"600", {{"content", "<new>"}}}};
  write("tokenizer_config.json", config);
  expect_in("'<new>' has id 600, but", mistakes_of([&] { Tokenizer::from_folder(folder_); }));
}

TEST_F(TokenizerFiles, NameRolesInAFileOfTheirOwn) {
  load_small();
  write("tokenizer_config.json", Json::object());
  write("special_tokens_map.json",
        {{"eos_token", {{"content", "<|im_end|>"}}}, {"pad_token", "<|endoftext|>"}});
  const auto tokenizer = Tokenizer::from_folder(folder_);
  EXPECT_EQ(tokenizer->eos_id(), 511);
  EXPECT_EQ(tokenizer->pad_id(), 509);
}

TEST_F(TokenizerFiles, GiveEveryThreadWhatTheyGiveOne) {
  const Json golden = read_golden("small_variants.json");
  for (const size_t v : {0, 7, 23}) {
    const auto tokenizer =
        load_small([&](Json& content) { content["pre_tokenizer"] = golden["variants"][v]["pre_tokenizer"]; });
    const auto work = [&](std::vector<Ids>& ids, std::string& text) {
      for (uint64_t i = 0; i < 500; ++i) {
        ids.push_back(tokenizer->encode(fuzz_text(golden["alphabet"], 41, i)));
        text += tokenizer->decode(ids.back());
      }
    };
    std::array<std::vector<Ids>, 4> ids;
    std::array<std::string, 4> texts;
    std::vector<std::thread> threads;
    for (size_t i = 1; i < ids.size(); ++i) threads.emplace_back([&, i] { work(ids[i], texts[i]); });
    for (auto& thread : threads) thread.join();
    work(ids[0], texts[0]);
    for (size_t i = 1; i < ids.size(); ++i) {
      EXPECT_EQ(ids[i], ids[0]);
      EXPECT_EQ(texts[i], texts[0]);
    }
  }
}

TEST_F(TokenizerFiles, NameTheTokensThatEndAText) {
  load_small();
  EXPECT_EQ(Tokenizer::from_folder(folder_)->stop_ids(), Ids{509});
  write("config.json", {{"eos_token_id", 510}});
  EXPECT_EQ(Tokenizer::from_folder(folder_)->stop_ids(), (Ids{509, 510}));
  write("generation_config.json", {{"eos_token_id", {511, 509}}});  // comes before config.json
  auto tokenizer = Tokenizer::from_folder(folder_);
  EXPECT_EQ(tokenizer->stop_ids(), (Ids{509, 511}));
  EXPECT_EQ(tokenizer->pad_id(), 509);
  write("tokenizer_config.json", {{"pad_token", {{"content", "<|im_start|>"}}}});
  tokenizer = Tokenizer::from_folder(folder_);
  EXPECT_EQ(tokenizer->eos_id(), 511);
  EXPECT_EQ(tokenizer->pad_id(), 510);
}

TEST_F(TokenizerFiles, MayAddTokensInTheConfiguration) {
  load_small();
  write("tokenizer_config.json",
        {{"eos_token", "<eot>"},
         {"added_tokens_decoder", {{"512", {{"content", "<eot>"}, {"special", true}}}}}});
  const auto tokenizer = Tokenizer::from_folder(folder_);
  EXPECT_EQ(tokenizer->encode("<eot>"), Ids{512});
  EXPECT_EQ(tokenizer->eos_id(), 512);
  EXPECT_EQ(tokenizer->vocab_size(), 513);
  tokenizer->save(folder_);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "config.json"));
}

TEST_F(TokenizerFiles, WithoutAnEndOfTextAreRefused) {
  load_small();
  std::filesystem::remove(folder_ + "tokenizer_config.json");
  const auto load = [&] { Tokenizer::from_folder(folder_); };
  expect_in("nothing says which token ends a text", mistakes_of(load));
  write("generation_config.json", {{"eos_token_id", 99999}});
  expect_in("generation_config.json: eos_token_id: 99999 is not the id of a token", mistakes_of(load));
  write("tokenizer_config.json", {{"eos_token", "</s>"}});
  expect_in("tokenizer_config.json: eos_token: no token is '</s>'", mistakes_of(load));
}

TEST_F(TokenizerFiles, ThatAreMissingOrBrokenAreNamed) {
  const auto load = [&] { Tokenizer::from_folder(folder_); };
  expect_in("tokenizer.json is missing", mistakes_of(load));
  write_text("tokenizer.json", "{\n\"model\": oops}");
  write_text("tokenizer_config.json", "[]");
  expect_in("tokenizer.json:2: bad JSON", mistakes_of(load));
  expect_in("tokenizer_config.json: expected an object, found array", mistakes_of(load));
  write_text("tokenizer.json", "{}");
  write_text("tokenizer_config.json", "{}");
  expect_in("tokenizer.json: model: ", mistakes_of(load));
  expect_in("does not exist", mistakes_of([] { Tokenizer::from_folder("/nowhere"); }));
}

TEST_F(TokenizerFiles, WithUnsupportedComponentsAreRefusedByName) {
  expect_in("normalizer: 'NFKC' is not supported; supported: Sequence, NFC",
            mistakes_of([](Json& t) { t["normalizer"]["type"] = "NFKC"; }));
  for (const char* type : {"Unigram", "WordPiece", "WordLevel"})
    expect_in(fmt::format("model: '{}' is not supported; supported: BPE", type),
              mistakes_of([&](Json& t) { t["model"]["type"] = type; }));
  expect_in("pre_tokenizer: 'Metaspace' is not supported", mistakes_of([](Json& t) {
              t["pre_tokenizer"] = pre_tokenizer_of({{"type", "Metaspace"}});
            }));
  expect_in("there is no ByteLevel", mistakes_of([](Json& t) { t["pre_tokenizer"] = nullptr; }));
  expect_in("behavior 'Shuffled' is not supported", mistakes_of([](Json& t) {
              t["pre_tokenizer"] = pre_tokenizer_of(
                  {{"type", "Split"}, {"pattern", {{"Regex", "a"}}}, {"behavior", "Shuffled"}});
            }));
  expect_in("bad regular expression", mistakes_of([](Json& t) {
              t["pre_tokenizer"] = pre_tokenizer_of(
                  {{"type", "Split"}, {"pattern", {{"Regex", "(a"}}}, {"behavior", "Isolated"}});
            }));
  expect_in("decoder: 'Metaspace' is not supported",
            mistakes_of([](Json& t) { t["decoder"]["type"] = "Metaspace"; }));
  expect_in("byte_fallback", mistakes_of([](Json& t) { t["model"]["byte_fallback"] = true; }));
  expect_in("dropout", mistakes_of([](Json& t) { t["model"]["dropout"] = 0.1; }));
  expect_in("end_of_word_suffix '</w>'",
            mistakes_of([](Json& t) { t["model"]["end_of_word_suffix"] = "</w>"; }));
  expect_in("post_processor: 'Whatever' is not supported", mistakes_of([](Json& t) {
              t["post_processor"] = {{"type", "Whatever"}};
            }));
}

TEST_F(TokenizerFiles, WithBadVocabulariesAreRefused) {
  expect_in("there are no tokens for the bytes 0x41",
            mistakes_of([](Json& t) { t["model"]["vocab"].erase("A"); }));
  expect_in("the id of token 'A' is not a number in 0..",
            mistakes_of([](Json& t) { t["model"]["vocab"]["A"] = -1; }));
  expect_in("the id of token 'A' is \"7\"", mistakes_of([](Json& t) { t["model"]["vocab"]["A"] = "7"; }));
  expect_in("id 1 has two tokens", mistakes_of([](Json& t) { t["model"]["vocab"]["A"] = 1; }));
  expect_in("there is no vocab", mistakes_of([](Json& t) { t["model"].erase("vocab"); }));
  expect_in("there are no merges", mistakes_of([](Json& t) { t["model"].erase("merges"); }));
  for (const Json& merge : {Json("t"), Json(7), Json{"t"}, Json{"t", ""}, Json{"Q", "Q"}, Json{"t", 1}})
    expect_in("merge 1: ", mistakes_of([&](Json& t) { t["model"]["merges"][0] = merge; }));
  expect_in("added_tokens: ", mistakes_of([](Json& t) { t["added_tokens"][0].erase("content"); }));
  expect_in("'<|im_end|>' has id 700, but", mistakes_of([](Json& t) {
              t["added_tokens"].push_back({{"id", 700}, {"content", "<|im_end|>"}});
            }));
}

TEST_F(TokenizerFiles, WithSeveralMistakesListThemAll) {
  const auto text = mistakes_of([](Json& t) {
    t["normalizer"]["type"] = "Lowercase";
    t["model"]["type"] = "Unigram";
    t["decoder"] = nullptr;
  });
  expect_in("'Lowercase'", text);
  expect_in("'Unigram'", text);
  expect_in("decoder: a missing type", text);
}

// Whatever is cut out of the file, the answer is an error that says something, never a crash.
TEST_F(TokenizerFiles, SurviveTheLossOfAnyPart) {
  const Json whole = read_golden("small_tokenizer.json");
  const Json flat = whole.flatten();
  int64_t n = 0;
  for (const auto& item : flat.items()) {
    if (item.key().find("/vocab/") != std::string::npos || item.key().find("/merges/") != std::string::npos)
      if (++n % 300 != 0) continue;
    for (const Json& instead : {Json(nullptr), Json("text"), Json(-5), Json::array(), Json::object()}) {
      Json changed = whole;
      changed[Json::json_pointer(item.key())] = instead;
      try {
        load_small([&](Json& t) { t = changed; })->encode("some text");
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::invalid_config) << item.key();
      }
    }
  }
}

}  // namespace
}  // namespace trireme::text
