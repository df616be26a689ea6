// What supervised fine-tuning learns of data files: rows to conversations, or prompts with responses, to
// tokens with their mask.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "runtime/base/error.h"
#include "trainer/data/learned_tokens.h"
#include "trainer/data/problem_set.h"
#include "trainer/data/prompt_tokens.h"
#include "trainer/text/tokenizer.h"

namespace trireme::data {
namespace {

constexpr const char* kTemplate =
    "{%- if tools %}T:{{ tools[0].function.name }};{% endif %}"
    "{%- for m in messages %}{{ m.role[0] }}:{% if m.role == 'assistant' and loud is defined %}{{ m.content "
    "| upper }}"
    "{% else %}{{ m.content }}{% endif %}"
    "{%- if m.tool_calls %}->{{ m.tool_calls[0].function.name }}{% endif %};{% endfor %}"
    "{%- if add_generation_prompt %}a:{% endif %}";

class Learned : public testing::Test {
 protected:
  Learned() { config_.val_fraction = 0; }
  ~Learned() override { std::filesystem::remove(path_); }

  std::vector<Problem> load(const std::string& lines) {
    std::ofstream(path_) << lines;
    config_.train_files = {path_};
    std::vector<Problem> problems = load_problems(config_, columns_, 1, &template_).train;
    encode_prompts(problems, *tokenizer_, config_);
    count_ = encode_learned(problems, *tokenizer_, &template_, limit_);
    return problems;
  }
  std::string mistakes(const std::string& lines) {
    try {
      load(lines);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_config);
      return error.message();
    }
    return "accepted";
  }
  // The text, with what is learned in brackets; texts of one problem behind each other.
  std::string shown(const Problem& problem) {
    std::string text;
    for (const MaskedTokens& tokens : problem.learned) {
      if (!text.empty()) text += " / ";
      for (size_t i = 0; i < tokens.ids.size(); ++i) {
        const bool before = i > 0 && tokens.mask[i - 1] != 0, here = tokens.mask[i] != 0;
        if (before != here) text += here ? "[" : "]";
        text += tokens.ids[i] == tokenizer_->eos_id() ? "$" : tokenizer_->decode({&tokens.ids[i], 1}, false);
      }
      if (!tokens.mask.empty() && tokens.mask.back() != 0) text += "]";
    }
    return text;
  }

  const chat::ChatTemplate template_{kTemplate, chat::Json::object(), "test"};
  const std::shared_ptr<const text::Tokenizer> tokenizer_ = text::Tokenizer::bytes();
  DataConfig config_;
  LearnedColumns columns_{"response", "messages", "tools"};
  LengthLimit limit_{100, "error"};
  LearnedCount count_;
  const std::string path_ = testing::TempDir() + "trireme_learned.jsonl";
};

void expect_in(const std::string& part, const std::string& text) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in:\n" << text;
}

const std::string kTurns =
    R"([{"role": "system", "content": "s"}, {"role": "user", "content": "u"}, {"role": "assistant", "content": "one"},)"
    R"( {"role": "user", "content": "v"}, {"role": "assistant", "content": "two"}])";

TEST_F(Learned, IsEveryTurnOfAConversation) {
  const auto problems = load("{\"messages\": " + kTurns + "}");
  EXPECT_EQ(shown(problems[0]), "s:s;u:u;a:[one;]u:v;a:[two;]");
  EXPECT_FALSE(problems[0].is_judged);
}

TEST_F(Learned, IsTheResponseToAPromptWithItsEnd) {
  const auto problems = load(R"({"prompt": "why? ", "response": "so", "answer": "7"})"
                             "\n"
                             R"({"prompt": "why? ", "response": "so"})");
  EXPECT_EQ(shown(problems[0]), "why? [so$]");
  EXPECT_TRUE(problems[0].is_judged);
  EXPECT_EQ(problems[0].answer, "7");
  EXPECT_FALSE(problems[1].is_judged);
}

TEST_F(Learned, IsTheCompletionOfAConversation) {
  const std::string turns = kTurns.substr(0, kTurns.rfind(", {")) + "]";
  const auto problems = load(
      "{\"prompt\": " + turns +
      R"(, "response": [{"role": "assistant", "content": "x"}, {"role": "user", "content": "y"}, {"role": "assistant", "content": "z"}]})");
  EXPECT_EQ(shown(problems[0]), "s:s;u:u;a:one;u:v;a:[x;]u:y;a:[z;]");
  EXPECT_EQ(problems[0].prompt, "s:s;u:u;a:one;u:v;a:");
}

TEST_F(Learned, RowsOfBothKindsGoTogether) {
  const auto problems = load("{\"messages\": " + kTurns + "}\n" + R"({"prompt": "p", "response": "r"})");
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_EQ(shown(problems[1]), "p[r$]");
}

TEST_F(Learned, TheTemplateSeesToolsAndTheRowsOwnVariables) {
  const std::string call =
      R"([{"role": "user", "content": "u"}, {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {}}}]},)"
      R"( {"role": "tool", "content": "3"}, {"role": "assistant", "content": "x"}])";
  const std::string tools = R"([{"type": "function", "function": {"name": "f"}}])";
  const auto problems = load(
      "{\"messages\": " + call + ", \"tools\": " + tools + "}\n{\"messages\": " + call +
      R"(, "tools": "[{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]", "chat_template_kwargs": {"loud": true}})");
  EXPECT_EQ(shown(problems[0]), "T:f;u:u;a:[->f;]t:3;a:[x;]");
  EXPECT_EQ(shown(problems[1]), "T:f;u:u;a:[->f;]t:3;a:[X;]");
  expect_in("column 'tools': expected a list of tools",
            mistakes("{\"messages\": " + kTurns + ", \"tools\": \"f\"}"));
  expect_in("column 'chat_template_kwargs': expected an object",
            mistakes("{\"messages\": " + kTurns + ", \"chat_template_kwargs\": 3}"));
}

TEST_F(Learned, LongExamplesAreNamedOrCut) {
  const std::string rows = R"({"prompt": "p", "response": "short"})"
                           "\n{\"messages\": " +
                           kTurns + "}";
  limit_.max_length = 20;
  const std::string text = mistakes(rows);
  expect_in("1 of 2 examples cannot be learned from", text);
  expect_in("trireme_learned.jsonl:2: the example has 24 tokens, sft.max_length is 20", text);
  limit_.truncation = "right";
  EXPECT_EQ(shown(load(rows)[1]), "s:s;u:u;a:[one;]");
  EXPECT_EQ(count_.cut, 1);
  EXPECT_EQ(count_.dropped, 0);
  limit_.truncation = "left";
  EXPECT_EQ(shown(load(rows)[1]), "u:u;a:[one;]u:v;a:[two;]");
  limit_ = {8, "right"};
  EXPECT_EQ(load(rows).size(), 1u);
  EXPECT_EQ(count_.dropped, 1);
  limit_.max_length = 1;
  expect_in("nothing is left to learn of any of the 2 examples, cut to sft.max_length = 1 at their end",
            mistakes(rows));
}

TEST_F(Learned, WhatCannotBeLearnedIsAMistakeOfItsRow) {
  const std::string good = R"({"prompt": "p", "response": "r"})";
  expect_in("trireme_learned.jsonl:2: no message is an assistant's",
            mistakes(good + "\n" + R"({"messages": [{"role": "user", "content": "u"}]})"));
  expect_in("trireme_learned.jsonl:2: the conversation begins with an assistant's message",
            mistakes(good + "\n" + R"({"messages": [{"role": "assistant", "content": "a"}]})"));
  expect_in("no column 'prompt' (data.prompt_key), nor 'messages' (sft.messages_key) with a conversation",
            mistakes(R"({"conversation": []})"));
  expect_in("column 'messages': expected a list of {role, content}, found object",
            mistakes(R"({"messages": {"role": "user"}})"));
  expect_in("no column 'response' (sft.response_key)", mistakes(R"({"prompt": "p", "answer": "a"})"));
  config_.apply_chat_template = "never";
  const std::string path = path_;
  std::ofstream(path) << "{\"messages\": " + kTurns + "}";
  config_.train_files = {path};
  try {
    load_problems(config_, columns_, 1, nullptr);
    ADD_FAILURE();
  } catch (const Error& error) {
    expect_in("conversations need a chat template, and data.apply_chat_template is \"never\"",
              error.message());
  }
}

TEST_F(Learned, OtherConversationsAreOtherProblems) {
  const uint64_t one = fingerprint(load("{\"messages\": " + kTurns + "}"));
  std::string other = kTurns;
  other.replace(other.find("one"), 3, "ONE");
  EXPECT_NE(fingerprint(load("{\"messages\": " + other + "}")), one);
}

}  // namespace
}  // namespace trireme::data
