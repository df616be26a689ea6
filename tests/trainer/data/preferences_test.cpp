// Preference rows: prompts told apart or within the answers, as text or as conversations; their tokens beside
// TRL's own (tools/make_goldens/trl_losses.py); and everything that can be wrong with them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "runtime/base/error.h"
#include "runtime/base/files.h"
#include "trainer/chat/chat_template.h"
#include "trainer/data/arithmetic.h"
#include "trainer/data/pair_tokens.h"
#include "trainer/data/problem_set.h"
#include "trainer/data/prompt_tokens.h"
#include "trainer/text/tokenizer.h"

namespace trireme::data {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kChatMl =
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

std::string source(const std::string& path) {
  return std::string(std::getenv("TRIREME_SOURCE_DIR")) + "/" + path;
}

class Preferences : public testing::Test {
 protected:
  Preferences() {
    fs::create_directories(folder_);
    config_.val_fraction = 0;
  }
  ~Preferences() override { fs::remove_all(folder_); }

  std::vector<Problem> read(const std::vector<std::string>& lines, const std::string& chat = kChatMl) {
    const chat::ChatTemplate chat_template(chat, Json::object(), "test");
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    const std::string path = (folder_ / "pairs.jsonl").string();
    files::write_atomically(path, text);
    config_.train_files = {path};
    return load_problems(config_, {.response = "", .messages = "", .tools = "", .pairs = true}, 1,
                         chat.empty() ? nullptr : &chat_template)
        .train;
  }
  std::string mistakes(const std::vector<std::string>& lines, const std::string& chat = kChatMl) {
    try {
      read(lines, chat);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  const fs::path folder_ = fs::temp_directory_path() / ("preferences_" + std::to_string(::getpid()));
  DataConfig config_;
};

using Texts = std::vector<std::string>;
Texts texts(const Problem& problem) {
  return {problem.prompt, problem.response, problem.rejected};
}

TEST_F(Preferences, TokensOfEveryFormAreTrls) {
  const auto golden = Json::parse(files::read(source("tests/trainer/data/goldens/trl_pairs.json")));
  files::write_atomically((folder_ / "tokenizer.json").string(),
                          files::read(source("tests/trainer/text/goldens/small_tokenizer.json")));
  files::write_atomically((folder_ / "tokenizer_config.json").string(),
                          R"({"eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>"})");
  const auto tokenizer = text::Tokenizer::from_folder(folder_.string());
  std::vector<std::string> lines;
  for (const auto& row : golden.at("rows")) lines.push_back(row.at("row").dump());
  const auto problems = read(lines, golden.at("chat_template"));
  ASSERT_EQ(problems.size(), golden.at("rows").size());
  for (size_t i = 0; i < problems.size(); ++i) {
    const auto& expected = golden.at("rows")[i];
    const PairTokens tokens = pair_tokens(problems[i], *tokenizer, config_);
    EXPECT_EQ(tokens.prompt, expected.at("prompt").get<std::vector<int32_t>>()) << lines[i];
    EXPECT_EQ(tokens.chosen, expected.at("chosen").get<std::vector<int32_t>>()) << lines[i];
    EXPECT_EQ(tokens.rejected, expected.at("rejected").get<std::vector<int32_t>>()) << lines[i];
  }
}

TEST_F(Preferences, ParquetHasTheSameRows) {
  const chat::ChatTemplate chat_template(kChatMl, Json::object(), "test");
  std::vector<std::string> lines;
  const auto golden = Json::parse(files::read(source("tests/trainer/data/goldens/trl_pairs.json")));
  for (const auto& row : golden.at("rows"))
    if (row.at("form") == "implicit chat") lines.push_back(row.at("row").dump());
  const auto expected = read(lines);
  config_.train_files = {source("tests/trainer/data/goldens/pairs.parquet")};
  const auto problems =
      load_problems(config_, {.response = "", .messages = "", .tools = "", .pairs = true}, 1, &chat_template)
          .train;
  ASSERT_EQ(problems.size(), expected.size());
  ASSERT_GE(problems.size(), 2U);
  for (size_t i = 0; i < problems.size(); ++i) EXPECT_EQ(texts(problems[i]), texts(expected[i]));
  EXPECT_NE(problems[1].where.find("pairs.parquet: row 2"), std::string::npos) << problems[1].where;
  config_.rejected_key = "worse";
  try {
    load_problems(config_, {.response = "", .messages = "", .tools = "", .pairs = true}, 1, &chat_template);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("no column 'worse' (data.rejected_key)"), std::string::npos);
  }
}

TEST_F(Preferences, APromptIsFoundWhereverItStands) {
  const std::string asked = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n";
  const std::string good = "Yes<|im_end|>\n", bad = "No<|im_end|>\n";
  // A list beside lists, a text beside lists, within lists, beside whole conversations, beside one message,
  // beside texts; a null column is none.
  for (
      const char* row :
      {R"({"prompt":[{"role":"user","content":"Hi"}],"chosen":[{"role":"assistant","content":"Yes"}],"rejected":[{"role":"assistant","content":"No"}]})",
       R"({"prompt":"Hi","chosen":[{"role":"assistant","content":"Yes"}],"rejected":[{"role":"assistant","content":"No"}]})",
       R"({"chosen":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Yes"}],"rejected":[{"role":"user","content":"Hi"},{"role":"assistant","content":"No"}]})",
       R"({"prompt":"another telling of it","chosen":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Yes"}],"rejected":[{"role":"user","content":"Hi"},{"role":"assistant","content":"No"}]})",
       R"({"prompt":[{"role":"user","content":"Hi"}],"chosen":{"role":"assistant","content":"Yes"},"rejected":{"role":"assistant","content":"No"}})",
       R"({"prompt":[{"role":"user","content":"Hi"}],"chosen":"Yes","rejected":"No"})",
       R"({"prompt":null,"chosen":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Yes"}],"rejected":[{"role":"user","content":"Hi"},{"role":"assistant","content":"No"}]})"}) {
    const auto problems = read({row});
    ASSERT_EQ(problems.size(), 1U) << row;
    EXPECT_EQ(texts(problems[0]), (Texts{asked, good, bad})) << row;
    EXPECT_TRUE(problems[0].is_chat);
  }
  config_.apply_chat_template = "always";
  EXPECT_EQ(texts(read({R"({"prompt":"Hi","chosen":"Yes","rejected":"No"})"})[0]), (Texts{asked, good, bad}));
  config_.apply_chat_template = "never";
  EXPECT_EQ(texts(read({R"({"prompt":"Hi","chosen":"Yes","rejected":"No"})"})[0]),
            (Texts{"Hi", "Yes", "No"}));
}

TEST_F(Preferences, ColumnsAndTemplatesAreThoseOfTheConfiguration) {
  config_.prompt_key = "question";
  config_.chosen_key = "answers.good";
  config_.rejected_key = "answers.bad";
  config_.prompt_template = "Q: {prompt}\nA:";
  const auto problems =
      read({R"({"question":"1+1?","answers":{"good":" 2","bad":" 3"},"data_source":"sums"})"});
  EXPECT_EQ(texts(problems[0]), (Texts{"Q: 1+1?\nA:", " 2", " 3"}));
  EXPECT_EQ(problems[0].data_source, "sums");
  EXPECT_EQ(problems[0].answer, "");
}

TEST_F(Preferences, ACommonBeginningEndsBetweenCharacters) {
  // Their letters share a byte.
  EXPECT_EQ(texts(read({R"({"chosen":"Gr\u00fc\u00df","rejected":"Gr\u00f6\u00df"})"})[0]),
            (Texts{"Gr", "üß", "öß"}));
}

TEST_F(Preferences, EveryMistakeIsNamedWithFileAndLine) {
  const std::string told = mistakes(
      {R"({"prompt":"a","chosen":"b"})", R"({"prompt":"a","chosen":"b","rejected":"c"})",
       R"({"chosen":"b","rejected":"c"})", R"({"prompt":"a","chosen":3,"rejected":"c"})",
       R"({"prompt":"a","chosen":[],"rejected":[]})",
       R"({"chosen":[{"role":"user","content":"x"},{"role":"assistant","content":"y"}],"rejected":[{"role":"user","content":"z"}]})",
       R"({"prompt":"a","chosen":[{"role":"assistant","text":"y"}],"rejected":"z"})"});
  for (const char* part :
       {"pairs.jsonl:1: no column 'rejected' (data.rejected_key); the columns are: prompt, chosen",
        "pairs.jsonl:3: there is no prompt: no column 'prompt' (data.prompt_key), and 'chosen' and "
        "'rejected'",
        "pairs.jsonl:4: column 'chosen': expected",
        "pairs.jsonl:5: column 'chosen': the conversation is empty", "pairs.jsonl:6: there is no prompt",
        "pairs.jsonl:7: column 'chosen': expected a list of {role, content}"})
    EXPECT_NE(told.find(part), std::string::npos) << part << "\n" << told;
  EXPECT_EQ(told.find("pairs.jsonl:2:"), std::string::npos) << told;

  const std::string chat =
      R"({"prompt":"a","chosen":[{"role":"assistant","content":"y"}],"rejected":[{"role":"assistant","content":"z"}]})";
  EXPECT_NE(mistakes({chat}, "").find("conversations need a chat template"), std::string::npos);
  config_.apply_chat_template = "never";
  EXPECT_NE(mistakes({chat}).find("takes a prompt and answers of plain text only"), std::string::npos);
}

TEST_F(Preferences, WhatIsTooLongIsCutOrRefused) {
  const auto tokenizer = text::Tokenizer::bytes();
  config_.max_prompt_length = 4;
  config_.max_response_length = 3;
  auto problems = read({R"({"prompt":"abcdef","chosen":"xyz!","rejected":"u"})"});
  try {
    encode_prompts(problems, *tokenizer, config_);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("pairs.jsonl:1: the prompt has 6 tokens"), std::string::npos);
  }
  config_.truncation = "left";
  encode_prompts(problems, *tokenizer, config_);
  const PairTokens tokens = pair_tokens(problems[0], *tokenizer, config_);
  EXPECT_EQ(tokens.prompt, (std::vector<int32_t>{'c', 'd', 'e', 'f'}));
  EXPECT_EQ(tokens.chosen, (std::vector<int32_t>{'x', 'y', 'z'}));
  EXPECT_EQ(tokens.rejected, (std::vector<int32_t>{'u', tokenizer->eos_id()}));
}

TEST_F(Preferences, ArithmeticRejectsASlipThatChangesTheValue) {
  ArithmeticConfig config;
  config.num_val = 64;
  const ProblemSet set = make_arithmetic(config, 3);
  std::set<std::string> kinds;
  for (const Problem& problem : set.val) {
    EXPECT_NE(problem.rejected, problem.response);
    EXPECT_EQ(problem.rejected.substr(0, problem.rejected.find(':')),
              problem.response.substr(0, problem.response.find(':')));
    const auto value = [](const std::string& text) { return std::stoi(text.substr(text.find('=') + 1)); };
    const int slip = value(problem.rejected) - value(problem.response);
    EXPECT_GE(value(problem.rejected), 0);
    EXPECT_TRUE(std::abs(slip) == 10 || std::abs(slip) == 1 || std::abs(slip) == 9) << problem.rejected;
    kinds.insert(slip > 0 ? slip == 10 ? "+10" : "up" : slip == -10 ? "-10" : "down");
  }
  EXPECT_EQ(kinds.size(), 4U);
}

}  // namespace
}  // namespace trireme::data
