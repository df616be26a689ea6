// Which tokens of a conversation are learned, against transformers: by a template's marks, else turn by turn
// (goldens made by tools/make_goldens/assistant_turns.py).
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "runtime/base/error.h"
#include "runtime/base/files.h"
#include "tests/trainer/chat/goldens.h"
#include "trainer/chat/assistant_turns.h"
#include "trainer/data/masked_tokens.h"
#include "trainer/text/tokenizer.h"

namespace trireme::data {
namespace {

using chat::ChatTemplate;
using chat::Conversation;
using chat::Json;
namespace fs = std::filesystem;

std::string source_folder() {
  const char* source = std::getenv("TRIREME_SOURCE_DIR");
  return source ? source : ".";
}

std::shared_ptr<const text::Tokenizer> small_tokenizer() {
  const fs::path folder = fs::path(testing::TempDir()) / "trireme_turns_tokenizer";
  fs::create_directories(folder);
  fs::copy_file(source_folder() + "/tests/trainer/text/goldens/small_tokenizer.json",
                folder / "tokenizer.json", fs::copy_options::overwrite_existing);
  files::write_atomically((folder / "tokenizer_config.json").string(), R"({"eos_token": "<|im_end|>"})");
  return text::Tokenizer::from_folder(folder.string());
}

// Number of ids, their CRC-32, begin and end of each learned run.
Json summary(const MaskedTokens& tokens) {
  std::string bytes(tokens.ids.size() * sizeof(int32_t), '\0');
  std::memcpy(bytes.data(), tokens.ids.data(), bytes.size());
  Json out = {tokens.ids.size(), chat::tests::crc32(bytes)};
  for (size_t i = 0; i <= tokens.mask.size(); ++i)
    if ((i < tokens.mask.size() ? tokens.mask[i] : 0) != (i > 0 ? tokens.mask[i - 1] : 0)) out.push_back(i);
  return out;
}

Json answers(const ChatTemplate& chat, const text::Tokenizer& tokenizer, const Json& given,
             std::string* refusal) {
  Conversation conversation = chat::tests::to_conversation(given);
  conversation.add_generation_prompt = conversation.continue_final_message = false;
  try {
    Json out = Json::array();
    for (const auto& turns : chat::assistant_turns(chat, conversation))
      out.push_back(summary(mask_tokens(turns, tokenizer)));
    return out;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_config);
    *refusal = error.message();
    return nullptr;
  }
}

int compare(const ChatTemplate& chat, const text::Tokenizer& tokenizer, const std::string& name,
            const Json& expected) {
  const Json conversations =
      chat::tests::read_json(chat::tests::goldens_folder() + "conversations.json").at("conversations");
  EXPECT_EQ(conversations.size(), expected.size());
  int found = 0;
  for (size_t i = 0; i < conversations.size(); ++i) {
    std::string refusal;
    const Json ours = answers(chat, tokenizer, conversations[i], &refusal);
    EXPECT_EQ(ours, expected[i]) << name << " of " << conversations[i].at("name") << ": " << refusal;
    found += !ours.is_null();
  }
  return found;
}

Json variables() {
  return chat::tests::read_json(chat::tests::goldens_folder() + "conversations.json").at("variables");
}

TEST(AssistantTurns, AreWhatTransformersFinds) {
  const auto tokenizer = small_tokenizer();
  const Json goldens =
      chat::tests::read_json(source_folder() + "/tests/trainer/data/goldens/assistant_turns.json");
  for (const auto& [name, expected] : goldens.items()) {
    if (name == "qwen2") continue;
    const std::string path = chat::tests::goldens_folder() + "templates/" + name + ".jinja";
    EXPECT_GE(compare(ChatTemplate(files::read(path), variables(), path), *tokenizer, name, expected), 70);
  }
}

TEST(AssistantTurns, OfQwenAreWhatTransformersFinds) {
  const char* data = std::getenv("TRIREME_TEST_DATA");
  if (!data) GTEST_SKIP() << "TRIREME_TEST_DATA is not set";
  const std::string folder = std::string(data) + "/tokenizers/qwen2";
  const Json goldens =
      chat::tests::read_json(source_folder() + "/tests/trainer/data/goldens/assistant_turns.json");
  const std::string path = folder + "/chat_template.jinja";
  const ChatTemplate chat(files::read(path), variables(), path);
  EXPECT_EQ(compare(chat, *text::Tokenizer::from_folder(folder), "qwen2", goldens.at("qwen2")), 71);
}

// Other people's templates, with what the golden maker wrote beside them as assistant_turns.json.
TEST(AssistantTurns, OfOtherTemplatesAreWhatTransformersFinds) {
  const char* folder = std::getenv("TRIREME_TEST_TEMPLATES");
  if (!folder || !fs::exists(fs::path(folder) / "assistant_turns.json"))
    GTEST_SKIP()
        << "set TRIREME_TEST_TEMPLATES to a folder of *.jinja files after "
           "tools/make_goldens/assistant_turns.py --templates FOLDER --out FOLDER/assistant_turns.json";
  const auto tokenizer = small_tokenizer();
  const Json goldens = chat::tests::read_json((fs::path(folder) / "assistant_turns.json").string());
  for (const auto& [name, expected] : goldens.items()) {
    const std::string path = (fs::path(folder) / (name + ".jinja")).string();
    compare(ChatTemplate(files::read(path), variables(), path), *tokenizer, name, expected);
  }
}

class Turns : public testing::Test {
 protected:
  std::vector<chat::TurnsText> find(const std::string& source, const std::string& roles, size_t first = 0) {
    const ChatTemplate chat(source, Json::object(), "test.jinja");
    Conversation conversation;
    for (const char role : roles) {
      const std::string name = role == 's' ? "system" : role == 'u' ? "user" : "assistant";
      conversation.messages.push_back({{"role", name}, {"content", std::string(1, role) + "!"}});
    }
    return chat::assistant_turns(chat, conversation, first);
  }
  std::string learned(const std::vector<chat::TurnsText>& texts) {
    std::string out;
    for (const auto& one : texts) {
      out += out.empty() ? "" : " / ";
      size_t at = 0;
      for (const auto& [begin, end] : one.turns) {
        out += one.text.substr(at, begin - at) + "[" + one.text.substr(begin, end - begin) + "]";
        at = end;
      }
      out += one.text.substr(at);
    }
    return out;
  }
  std::string refusal(const std::string& source, const std::string& roles, size_t first = 0) {
    try {
      return "accepted: " + learned(find(source, roles, first));
    } catch (const Error& error) {
      return error.message();
    }
  }

  const std::string plain_ =
      "{% for m in messages %}<{{ m.role[0] }}>{{ m.content }};{% endfor %}"
      "{% if add_generation_prompt %}<a>{% endif %}";
};

TEST_F(Turns, AreWhatFollowsTheQuestion) {
  EXPECT_EQ(learned(find(plain_, "suaua")), "<s>s!;<u>u!;<a>[a!;]<u>u!;<a>[a!;]");
  EXPECT_EQ(learned(find(plain_, "uaa")), "<u>u!;<a>[a!;]<a>[a!;]");
}

TEST_F(Turns, WhatComesAfterTheLastIsLeftOut) {
  EXPECT_EQ(learned(find(plain_, "uau")), "<u>u!;<a>[a!;]");
}

TEST_F(Turns, OfThePromptDoNotCount) {
  EXPECT_EQ(learned(find(plain_, "uaua", 3)), "<u>u!;<a>a!;<u>u!;<a>[a!;]");
  EXPECT_EQ(refusal(plain_, "uau", 2),
            "no message after the prompt is an assistant's: there is nothing to learn");
}

TEST_F(Turns, OfADefaultSystemPromptHaveItBeforeThem) {
  EXPECT_EQ(learned(find("{% if messages[0].role != 'system' %}<s>default;{% endif %}" + plain_, "uaua")),
            "<s>default;<u>u!;<a>[a!;]<u>u!;<a>[a!;]");
}

TEST_F(Turns, ThatATemplateRewritesAreLearnedOneByOne) {
  const std::string rewriting =
      "{% for m in messages %}<{{ m.role[0] }}>{% if loop.last and m.role == 'assistant' %}(thought){% endif "
      "%}"
      "{{ m.content }};{% endfor %}{% if add_generation_prompt %}<a>{% endif %}";
  EXPECT_EQ(learned(find(rewriting, "uaua")),
            "<u>u!;<a>[(thought)a!;] / <u>u!;<a>a!;<u>u!;<a>[(thought)a!;]");
}

TEST_F(Turns, ThatAreMarkedNeedNoQuestion) {
  const std::string marked =
      "{% for m in messages %}<{{ m.role[0] }}>{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
      "{% endgeneration %}{% else %}{{ m.content }}{% endif %};{% endfor %}{% if add_generation_prompt %}?"
      "{% endif %}";
  EXPECT_EQ(learned(find(marked, "auau")), "<a>[a!];<u>u!;<a>[a!];<u>u!;");
}

TEST_F(Turns, ThatCannotBeToldAreRefused) {
  const std::string thinking =
      "{% for m in messages %}<{{ m.role[0] }}>{{ m.content }};{% endfor %}"
      "{% if add_generation_prompt %}<a><think>{% endif %}";
  EXPECT_EQ(
      refusal(thinking, "uauaua").substr(0, 129),
      "what the assistant says in message 2 cannot be told from the rest: the template asks for it with "
      "\"<u>u!;<a><think>\", and writes i");
  EXPECT_NE(refusal(thinking, "ua").find("put {% generation %} and {% endgeneration %} around"),
            std::string::npos);
  const std::string silent =
      "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% endif %}{% endfor %}";
  EXPECT_EQ(refusal(silent, "ua"), "the template writes nothing of the assistant's message 2");
  EXPECT_NE(refusal(plain_, "aua").find("begins with an assistant's message"), std::string::npos);
  EXPECT_NE(refusal(plain_, "su").find("no message is an assistant's"), std::string::npos);
  const std::string unmarked =
      "{% for m in messages %}{% if m.role == 'x' %}{% generation %}{% endgeneration %}{% endif %}"
      "{{ m.content }}{% endfor %}";
  EXPECT_NE(refusal(unmarked, "ua").find("marks nothing of this conversation's 1 assistant turns"),
            std::string::npos);
}

TEST(MaskedTokens, ATokenAcrossATurnsBeginningIsLearned) {
  const auto tokenizer = small_tokenizer();
  const auto whole = tokenizer->encode("the");  // one of the small tokenizer's
  ASSERT_EQ(whole.size(), 1u);
  const MaskedTokens tokens = mask_tokens({"<|im_start|>the", {{13, 15}}}, *tokenizer);
  EXPECT_EQ(tokens.mask, (std::vector<uint8_t>{0, 1}));
  EXPECT_EQ(tokens.num_learned(), 1);
}

TEST(MaskedTokens, TextThatTheNormalizerChangesKeepsItsPlaces) {
  const auto tokenizer = small_tokenizer();  // composes: e and an accent become one character
  const std::string user = "<|im_start|>e\xcc\x81;<|im_end|>", answer = "e\xcc\x81!<|im_end|>";
  const MaskedTokens tokens =
      mask_tokens({user + answer, {{user.size(), user.size() + answer.size()}}}, *tokenizer);
  const auto learned = tokenizer->encode("\xc3\xa9!<|im_end|>").size();
  EXPECT_EQ(static_cast<size_t>(tokens.num_learned()), learned);
  EXPECT_EQ(tokens.mask[tokens.mask.size() - learned - 1], 0);
  // The accent alone is a turn of nobody's.
  EXPECT_THROW(mask_tokens({user, {{13, user.size()}}}, *tokenizer), Error);
}

TEST(MaskedTokens, AreCutAtEitherEnd) {
  const MaskedTokens tokens{{1, 2, 3, 4, 5, 6}, {0, 1, 1, 0, 1, 0}};
  EXPECT_EQ(truncated(tokens, 6, "right").ids, (std::vector<int32_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(truncated(tokens, 4, "right").ids, (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(truncated(tokens, 4, "left").mask, (std::vector<uint8_t>{1, 0, 1}));
  EXPECT_EQ(truncated(tokens, 1, "right").num_learned(), 0);
  EXPECT_EQ(prompt_and_response({7}, {8, 9}).mask, (std::vector<uint8_t>{0, 1, 1}));
}

}  // namespace
}  // namespace trireme::data
