// What another model reads of a problem and a response.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "runtime/base/error.h"
#include "runtime/base/files.h"
#include "trainer/chat/chat_template.h"
#include "trainer/data/other_reader.h"
#include "trainer/text/tokenizer.h"

namespace trireme::data {
namespace {

namespace fs = std::filesystem;

OtherReader with_template(const std::string& source) {
  return {text::Tokenizer::bytes(), std::make_shared<chat::ChatTemplate>(source, chat::Json::object(), "t")};
}

std::string text_for(const OtherReader& reader, const Problem& problem, const std::string& response) {
  return reader.tokenizer->decode(tokens_for(reader, problem, response), false);
}

constexpr const char* kTemplate = "{% for m in messages %}<|im_start|>{{ m.role }}:{{ m.content }}{% endfor %}";

TEST(OtherReader, ReadsTheConversationWithTheResponseAsItsLastMessage) {
  Problem problem;
  problem.prompt = "as the policy reads it";
  problem.messages = R"([{"role":"system","content":"Be brief."},{"role":"user","content":"2+2?"}])";
  EXPECT_EQ(text_for(with_template(kTemplate), problem, "4"),
            "<|im_start|>system:Be brief.<|im_start|>user:2+2?<|im_start|>assistant:4");
  problem.messages = R"([{"role":"user","content":"2+2?"},{"role":"assistant","content":"It is "}])";
  EXPECT_EQ(text_for(with_template(kTemplate), problem, "4"),
            "<|im_start|>user:2+2?<|im_start|>assistant:It is 4");
  problem.messages = "";
  EXPECT_EQ(text_for(with_template(kTemplate), problem, "4"),
            "<|im_start|>user:as the policy reads it<|im_start|>assistant:4");
}

TEST(OtherReader, ReadsPromptAndResponseAsTheyStandWithoutATemplate) {
  Problem problem;
  problem.prompt = "2+2=";
  EXPECT_EQ(text_for({text::Tokenizer::bytes(), nullptr}, problem, "4"), "2+2=4");
}

TEST(OtherReader, NamesTheProblemThatATemplateRefuses) {
  Problem problem;
  problem.where = "data.jsonl:7";
  try {
    (void)tokens_for(with_template("{{ raise_exception('no such role') }}"), problem, "4");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_config);
    EXPECT_NE(std::string(error.what()).find("data.jsonl:7"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("no such role"), std::string::npos) << error.what();
  }
}

std::shared_ptr<const text::Tokenizer> small_tokenizer(const std::function<void(nlohmann::json&)>& change) {
  const char* root = std::getenv("TRIREME_SOURCE_DIR");
  auto json = nlohmann::json::parse(
      files::read(std::string(root ? root : ".") + "/tests/trainer/text/goldens/small_tokenizer.json"));
  change(json);
  const fs::path folder = fs::temp_directory_path() / fmt::format("other-reader-{}", getpid());
  fs::create_directories(folder);
  std::ofstream(folder / "tokenizer.json") << json.dump();
  std::ofstream(folder / "generation_config.json") << R"({"eos_token_id": 0})";
  auto tokenizer = text::Tokenizer::from_folder(folder);
  fs::remove_all(folder);
  return tokenizer;
}

TEST(OtherReader, TokenizersDifferWhereAnIdMeansSomethingElse) {
  const auto small = small_tokenizer([](nlohmann::json&) {});
  const auto padded = small_tokenizer([&](nlohmann::json& json) {
    json["added_tokens"].push_back({{"id", small->vocab_size()},
                                    {"content", "[PAD]"},
                                    {"single_word", false},
                                    {"lstrip", false},
                                    {"rstrip", false},
                                    {"normalized", false},
                                    {"special", true}});
  });
  EXPECT_EQ(difference(*small, *small), "");
  // A reward model's padding token beyond the policy's ids.
  EXPECT_EQ(difference(*small, *padded), "");
  EXPECT_EQ(difference(*padded, *small),
            fmt::format("id {0} is '[PAD]', here there are {0} ids", small->vocab_size()));
  EXPECT_NE(difference(*text::Tokenizer::bytes(), *small), "");
}

}  // namespace
}  // namespace trireme::data
