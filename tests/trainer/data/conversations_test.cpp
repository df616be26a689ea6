// Conversations in data files become the text that a chat template makes of them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "runtime/base/error.h"
#include "trainer/data/problem_set.h"

namespace trireme::data {
namespace {

// Every message in brackets of its role; refuses tools, knows one variable.
constexpr const char* kTemplate =
    "{%- for m in messages %}"
    "{%- if m.role == 'tool' %}{{ raise_exception('no tools here') }}{% endif %}"
    "<{{ m.role }}>{{ m.content }}</{{ m.role }}>"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}<assistant>{% if terse is defined %}[{{ terse }}]{% endif %}{% endif %}";

class Conversations : public testing::Test {
 protected:
  Conversations() { config_.val_fraction = 0; }
  ~Conversations() override { std::filesystem::remove(path_); }

  std::vector<Problem> load(const std::string& lines, const std::string& response_key = "") {
    std::ofstream(path_) << lines;
    config_.train_files = {path_};
    return load_problems(config_, {response_key}, 1, &template_).train;
  }
  std::string prompt_of(const std::string& value) {
    return load("{\"prompt\": " + value + ", \"answer\": \"a\"}")[0].prompt;
  }
  std::string mistakes(const std::string& lines, const std::string& response_key = "") {
    try {
      load(lines, response_key);
    } catch (const Error& error) {
      return error.message();
    }
    return "accepted";
  }

  const chat::ChatTemplate template_{kTemplate, chat::Json::object(), "test"};
  DataConfig config_;
  const std::string path_ = testing::TempDir() + "trireme_conversation.jsonl";
};

void expect_in(const std::string& part, const std::string& text) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in:\n" << text;
}

constexpr const char* kTurns =
    R"([{"role": "system", "content": "s"}, {"role": "user", "content": "u"}, {"role": "assistant", "content": "a"},)"
    R"( {"role": "user", "content": "v"}])";

TEST_F(Conversations, AreRenderedUpToWhereTheAssistantAnswers) {
  EXPECT_EQ(prompt_of(kTurns),
            "<system>s</system><user>u</user><assistant>a</assistant><user>v</user><assistant>");
}

TEST_F(Conversations, AreContinuedWhereTheAssistantHasBegun) {
  EXPECT_EQ(prompt_of(R"([{"role": "user", "content": "u"}, {"role": "assistant", "content": "So"}])"),
            "<user>u</user><assistant>So");
}

TEST_F(Conversations, PlainPromptsStayPlainUnlessAsked) {
  EXPECT_EQ(prompt_of("\"u\""), "u");
  config_.apply_chat_template = "always";
  EXPECT_EQ(prompt_of("\"u\""), "<user>u</user><assistant>");
}

TEST_F(Conversations, ThePromptTemplateGoesAroundTheLastUserMessage) {
  config_.prompt_template = "Q: {prompt}!";
  EXPECT_EQ(prompt_of(kTurns),
            "<system>s</system><user>u</user><assistant>a</assistant><user>Q: v!</user><assistant>");
  config_.apply_chat_template = "always";
  EXPECT_EQ(prompt_of("\"u\""), "<user>Q: u!</user><assistant>");
}

TEST_F(Conversations, TheTemplateSeesMoreVariables) {
  config_.chat_template_kwargs = R"({"terse": 7})";
  EXPECT_EQ(prompt_of(R"([{"role": "user", "content": "u"}])"), "<user>u</user><assistant>[7]");
  config_.chat_template_kwargs = "terse";
  expect_in("data.chat_template_kwargs: 'terse' is not a JSON object", mistakes("{}"));
}

TEST_F(Conversations, WhatTheTemplateRefusesIsAMistakeOfItsRow) {
  const std::string fine = R"({"prompt": [{"role": "user", "content": "u"}], "answer": "a"})";
  const std::string bad = R"({"prompt": [{"role": "tool", "content": "u"}], "answer": "a"})";
  const auto text = mistakes(fine + "\n" + bad + "\n" + bad);
  expect_in("trireme_conversation.jsonl:2: column 'prompt': ", text);
  expect_in("trireme_conversation.jsonl:3: column 'prompt': ", text);
  expect_in("no tools here", text);
}

TEST_F(Conversations, LearnTheAssistantsMessageOfAnotherColumn) {
  const auto problems = load(
      R"({"prompt": [{"role": "user", "content": "u"}], "completion": [{"role": "assistant", "content": "c"}], "answer": "a"})"
      "\n"
      R"({"prompt": "p", "completion": "text", "answer": "a"})",
      "completion");
  EXPECT_EQ(problems[0].response, "c");
  EXPECT_EQ(problems[1].response, "text");
  expect_in("column 'completion': expected text, or a single message of an assistant",
            mistakes(R"({"prompt": "p", "completion": [{"role": "user", "content": "c"}], "answer": "a"})",
                     "completion"));
}

TEST_F(Conversations, LearnTheLastMessageOfTheirOwnColumn) {
  config_.prompt_key = "messages";
  const std::string row =
      R"({"messages": [{"role": "user", "content": "u"}, {"role": "assistant", "content": "c"}], "answer": "a"})";
  const auto problems = load(row, "messages");
  EXPECT_EQ(problems[0].prompt, "<user>u</user><assistant>");
  EXPECT_EQ(problems[0].response, "c");
  expect_in("column 'messages': expected a conversation that ends with an assistant's message",
            mistakes(R"({"messages": [{"role": "user", "content": "u"}], "answer": "a"})", "messages"));
}

TEST_F(Conversations, VerlsParquetNeedsNoSettings) {
  const char* source = std::getenv("TRIREME_SOURCE_DIR");
  config_.train_files = {std::string(source != nullptr ? source : ".") +
                         "/tests/trainer/data/goldens/verl-snappy.parquet"};
  const auto problems = load_problems(config_, {}, 1, &template_).train;
  ASSERT_EQ(problems.size(), 40u);
  EXPECT_EQ(problems[0].prompt, "<system>Be brief.</system><user>0: Wie viel ist 6 · 7?</user><assistant>");
  EXPECT_EQ(problems[3].answer, "21");
  EXPECT_EQ(problems[3].data_source, "mine");
  EXPECT_EQ(problems[4].data_source, "openai/gsm8k");
  EXPECT_EQ(
      problems[3].extra_info,
      R"({"answer":"so 3\n#### 21","index":3,"question":"?","split":"train","tags":["a","b","c"],"weight":0.375})");
}

}  // namespace
}  // namespace trireme::data
