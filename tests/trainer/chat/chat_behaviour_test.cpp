// What is said where a template or a conversation is wrong, and where templates come from.
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <thread>

#include "tests/trainer/chat/goldens.h"

namespace trireme::chat::tests {
namespace {

namespace fs = std::filesystem;

Conversation one_message() {
  Conversation conversation;
  conversation.messages = Json::array({{{"role", "user"}, {"content", "x"}}});
  return conversation;
}

std::string error_of(const std::string& source, const Conversation& conversation = one_message()) {
  try {
    return "rendered: " + ChatTemplate(source, Json::object(), "T").render(conversation).text;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_config);
    return error.message();
  }
}

std::string text_of(const std::string& source, const Conversation& conversation = one_message()) {
  return ChatTemplate(source, Json::object(), "T").render(conversation).text;
}

TEST(ChatErrors, NameFileLineAndConstruct) {
  EXPECT_EQ(error_of("a\n{% block x %}"),
            "T:2: {% block %} is outside the part of Jinja that chat templates use; it is not supported");
  EXPECT_EQ(error_of("{% macr f() %}"), "T:1: there is no block {% macr %}; did you mean macro?");
  EXPECT_EQ(error_of("\n\n{{ x | tojsn }}"), "T:3: there is no filter 'tojsn'; did you mean tojson?");
  EXPECT_EQ(error_of("{{ x | groupby('a') }}"),
            "T:1: the filter 'groupby' is outside the part of Jinja that is supported");
  EXPECT_EQ(error_of("{{ x is strin }}"), "T:1: there is no test 'strin'; did you mean string?");
  EXPECT_EQ(error_of("{% if 1 %}\nx"), "T:2: the template ends where {% elif or else or endif %} is to come");
  EXPECT_EQ(error_of("{{ 'abc }}"), "T:1: a string is not closed");
  EXPECT_EQ(error_of("{{ (1] }}"), "T:1: unexpected ']', expected ')'");
  EXPECT_EQ(error_of("{{ 1 1 }}"), "T:1: expected '}}', got '1'");
  EXPECT_EQ(error_of("{% break %}"), "T:1: {% break %} stands in no loop");
  EXPECT_EQ(error_of("{% for a in [] recursive %}{% endfor %}"), "T:1: a recursive loop is not supported");
  EXPECT_EQ(error_of("\xFF"), "T: the template is not UTF-8");
}

TEST(ChatErrors, OfARenderingNameTheLine) {
  EXPECT_EQ(error_of("\n{{ raise_exception('No ' ~ 1) }}"),
            "T:2: the template refuses this conversation: No 1");
  EXPECT_EQ(error_of("{{ messages[0].name.first }}"), "T:1: 'name' is undefined: a dict has none");
  EXPECT_EQ(error_of("{% macro f(a) %}\n{{ a + 1 }}{% endmacro %}\n\n{{ f('x') }}"),
            "T:2: str + int has no meaning");
  EXPECT_EQ(error_of("{{ [].append(1) }}"),
            "T:1: 'append' would change a list, which a template may not, so it cannot be called");
  EXPECT_EQ(error_of("{% set ns = 1 %}{% set ns.x = 2 %}"),
            "T:1: 'ns' is no namespace, so its 'x' cannot be set");
  EXPECT_EQ(error_of("{{ 'x'.encode() }}"),
            "T:1: 'encode' of a str is outside the part of Jinja that is supported");
}

TEST(ChatErrors, OfAnUnknownFilterInABranchComeWhenItIsReached) {
  EXPECT_EQ(text_of("{% if false %}{{ x | from_json }}{% endif %}ok"), "ok");
  EXPECT_EQ(error_of("{% if true %}{{ x | from_json }}{% endif %}"), "T:1: there is no filter 'from_json'");
}

TEST(ChatErrors, OfConversationsSayWhatIsWrong) {
  Conversation c;
  EXPECT_EQ(error_of("x", c), "a conversation needs at least one message");
  c.messages = Json::array({"text"});
  EXPECT_EQ(error_of("x", c), "the messages of a conversation must be objects");
  c = one_message();
  c.tools = "x";
  EXPECT_EQ(error_of("x", c), "the tools of a conversation must be a list");
  c = one_message();
  c.variables = {{"messages", 1}};
  EXPECT_NE(error_of("x", c).find("'messages' cannot be set"), std::string::npos);
  c = one_message();
  c.messages[0]["content"] = 18446744073709551615U;
  EXPECT_NE(error_of("x", c).find("does not fit 64 bits"), std::string::npos);
}

TEST(ChatTemplate, KeepsTheConversationsVariablesBeforeItsOwn) {
  const ChatTemplate chat("{{ a }}{{ b }}", {{"a", 1}, {"b", 2}}, "T");
  Conversation c = one_message();
  c.variables = {{"b", "x"}};
  EXPECT_EQ(chat.render(c).text, "1x");
}

TEST(ChatTemplate, AsksTheClockOnlyThroughStrftimeNow) {
  const std::time_t before = std::time(nullptr);
  const std::string year = text_of("{{ strftime_now('%Y') }}");
  const std::time_t after = std::time(nullptr);
  EXPECT_TRUE(year == std::to_string(1900 + std::localtime(&before)->tm_year) ||
              year == std::to_string(1900 + std::localtime(&after)->tm_year));
}

TEST(ChatTemplate, MarksGenerationsInBytes) {
  const ChatTemplate chat(
      "é{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %};{% endfor %}", {}, "T");
  Conversation c = one_message();
  c.messages.push_back({{"role", "assistant"}, {"content", "😀"}});
  const RenderedChat rendered = chat.render(c);
  EXPECT_EQ(rendered.text, "éx;😀;");
  const std::vector<std::pair<size_t, size_t>> expected = {{2, 3}, {4, 8}};
  EXPECT_EQ(rendered.generation, expected);
}

TEST(ChatTemplate, RendersInSeveralThreadsAtOnce) {
  const ChatTemplate chat(
      "{% set ns = namespace(n=0) %}{% for i in range(200) %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}",
      {}, "T");
  std::vector<std::thread> threads;
  std::vector<int> right(4, 0);
  for (size_t i = 0; i < right.size(); ++i)
    threads.emplace_back([&, i] {
      for (int j = 0; j < 50; ++j) right[i] += chat.render(one_message()).text == "19900";
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(right, std::vector<int>(4, 50));
}

class ChatFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("trireme-chat-" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  void write(const std::string& name, const std::string& text) {
    fs::create_directories((folder_ / name).parent_path());
    files::write_atomically((folder_ / name).string(), text);
  }
  std::string render(const Conversation& c = one_message()) {
    return ChatTemplate::from_folder(folder_.string())->render(c).text;
  }
  fs::path folder_;
};

TEST_F(ChatFolder, WithoutATemplateHasNone) {
  EXPECT_EQ(ChatTemplate::from_folder(folder_.string()), nullptr);
  write("tokenizer_config.json", R"({"chat_template": null})");
  EXPECT_EQ(ChatTemplate::from_folder(folder_.string()), nullptr);
}

TEST_F(ChatFolder, GivesItsSpecialTokens) {
  write(
      "tokenizer_config.json",
      R"({"chat_template": "{{ bos_token }}{{ eos_token }}{{ pad_token is defined }}{{ image_token }}{{ add_bos_token }}",
            "bos_token": "<b>", "eos_token": {"__type": "AddedToken", "content": "<e>"}, "pad_token": null,
            "add_bos_token": true, "extra_special_tokens": {"image_token": "<i>"}})");
  EXPECT_EQ(render(), "<b><e>False<i>");
  write("special_tokens_map.json", R"({"eos_token": {"content": "<older>"}})");
  EXPECT_EQ(render(), "<b><older>False<i>");
}

TEST_F(ChatFolder, PrefersTheFileOfItsOwn) {
  write("tokenizer_config.json", R"({"chat_template": "config", "bos_token": "<b>"})");
  write("chat_template.jinja", "file {{ bos_token }}");
  EXPECT_EQ(render(), "file <b>");
}

TEST_F(ChatFolder, ChoosesAmongNamedTemplates) {
  Conversation with_tools = one_message();
  with_tools.tools = Json::array();
  write("tokenizer_config.json", R"({"chat_template": [{"name": "default", "template": "plain"},
                                                       {"name": "tool_use", "template": "tools"}]})");
  EXPECT_EQ(render(), "plain");
  EXPECT_EQ(render(with_tools), "tools");
  write("chat_template.jinja", "file");
  EXPECT_EQ(render(with_tools), "file");
  write("additional_chat_templates/tool_use.jinja", "file for tools");
  EXPECT_EQ(render(with_tools), "file for tools");
  EXPECT_EQ(render(), "file");
}

TEST_F(ChatFolder, SaysWhatIsWrongWithIt) {
  const auto error = [&]() -> std::string {
    try {
      ChatTemplate::from_folder(folder_.string());
      return "";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::invalid_config);
      return e.message();
    }
  };
  const std::string config = (folder_ / "tokenizer_config.json").string();
  write("tokenizer_config.json", "{");
  EXPECT_EQ(error(), config + " is no JSON");
  write("tokenizer_config.json", R"({"chat_template": [{"name": "rag", "template": ""}]})");
  EXPECT_EQ(error(), config + ": none of its chat templates is named \"default\"");
  write("tokenizer_config.json", R"({"chat_template": [{"name": "default"}]})");
  EXPECT_EQ(error(), config + ": an entry of chat_template needs a name and a template");
  write("tokenizer_config.json", R"({"chat_template": "a\n{% if %}"})");
  EXPECT_EQ(error(), config + " chat_template:2: expected an expression, got '%}'");
}

}  // namespace
}  // namespace trireme::chat::tests
