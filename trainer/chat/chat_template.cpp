#include "trainer/chat/chat_template.h"

#include <algorithm>
#include <array>

#include "runtime/base/error.h"
#include "trainer/jinja/interpreter.h"
#include "trainer/jinja/program.h"
#include "trainer/jinja/unicode_text.h"

namespace trireme::chat {
namespace {

using namespace jinja;  // this file is where a conversation becomes a template's values

// Stands at the end of the message that is to be continued, and shows where the template put it.
constexpr std::string_view kContinueMark = "CONTINUE_FINAL_MESSAGE_TAG ";
// Names under which a message's reasoning may come; templates read the first, or "thinking".
constexpr std::array<const char*, 3> kReasoning = {"reasoning_content", "thinking", "reasoning"};
constexpr std::array<const char*, 4> kOwnVariables = {"messages", "tools", "documents",
                                                      "add_generation_prompt"};

void check_objects(const Json& list, const char* what) {
  if (!list.is_array()) fail(ErrorCode::invalid_config, "the {} of a conversation must be a list", what);
  for (const Json& one : list)
    if (!one.is_object()) fail(ErrorCode::invalid_config, "the {} of a conversation must be objects", what);
}

void check_variables(const Json& variables) {
  if (!variables.is_object())
    fail(ErrorCode::invalid_config, "the variables of a chat template must be an object");
  for (const char* name : kOwnVariables)
    if (variables.contains(name))
      fail(ErrorCode::invalid_config,
           "'{}' cannot be set as a variable of a chat template: it is the conversation's", name);
}

void check(const Conversation& conversation) {
  check_objects(conversation.messages, "messages");
  if (conversation.messages.empty())
    fail(ErrorCode::invalid_config, "a conversation needs at least one message");
  if (!conversation.tools.is_null()) check_objects(conversation.tools, "tools");
  if (!conversation.documents.is_null()) check_objects(conversation.documents, "documents");
  check_variables(conversation.variables);
  if (conversation.add_generation_prompt && conversation.continue_final_message)
    fail(ErrorCode::invalid_config,
         "add_generation_prompt begins a new answer, continue_final_message goes on with the last: not both");
}

// Without null values, and with its reasoning under both names that templates read.
Value message_value(const Json& message, Workspace& work) {
  std::vector<Entry> entries;
  for (const auto& [key, value] : message.items())
    if (!value.is_null()) entries.push_back({Value::string(key), work.from_json(value)});
  for (const char* name : kReasoning) {
    const Value* found = find(entries, Value::string(name), work);
    if (!found) continue;
    const Value reasoning = *found;
    const auto thinking = std::find_if(entries.begin(), entries.end(),
                                       [](const Entry& e) { return e.key.as_string() == "thinking"; });
    if (thinking != entries.end()) {
      std::rotate(entries.begin(), thinking, thinking + 1);
    } else {
      entries.insert(entries.begin(), {Value::string("thinking"), reasoning});
    }
    if (const Value* first = find(entries, Value::string("reasoning_content"), work)) {
      *const_cast<Value*>(first) = reasoning;
    } else {
      entries.push_back({Value::string("reasoning_content"), reasoning});
    }
    break;
  }
  return work.dict(entries);
}

// The last message with the mark at its end; `text` becomes what it says without.
Json mark_final_message(const Json& message, const Program& program, std::string* text) {
  Json marked = message;
  const auto content = marked.find("content");
  if (content == marked.end() || content->is_null())
    fail(ErrorCode::invalid_config, "the last message has no content to continue");
  if (!program.mentions("content"))
    fail(ErrorCode::invalid_config, "{}: the template shows no content that could be continued",
         program.where());
  if (content->is_string()) {
    *text = content->get<std::string>();
    *content = *text + std::string(kContinueMark);
    return marked;
  }
  if (content->is_array()) {
    for (auto part = content->rbegin(); part != content->rend(); ++part) {
      if (!part->is_object() || !part->contains("text") || !(*part)["text"].is_string()) continue;
      *text = (*part)["text"].get<std::string>();
      (*part)["text"] = *text + std::string(kContinueMark);
      return marked;
    }
  }
  fail(ErrorCode::invalid_config, "the last message has no text to continue");
}

void cut_at_mark(RenderedChat& chat, const std::string& final_message, const std::string& where) {
  const auto mark = strip(kContinueMark);
  const size_t at = chat.text.rfind(mark);
  if (at == std::string::npos || chat.text.find(strip(final_message)) == std::string::npos)
    fail(ErrorCode::invalid_config,
         "{}: the last message is to be continued, but the template does not write it as it is", where);
  const bool spaced = std::string_view(chat.text).substr(at, kContinueMark.size()) == kContinueMark;
  chat.text.resize(at);
  if (!spaced) chat.text.resize(strip_right(chat.text).size());
  std::vector<std::pair<size_t, size_t>> kept;
  for (auto [begin, end] : chat.generation)
    if (end = std::min(end, chat.text.size()); begin < end) kept.emplace_back(begin, end);
  chat.generation = std::move(kept);
}

}  // namespace

ChatTemplate::ChatTemplate(const std::string& source, Json variables, std::string where)
    : program_(std::make_unique<const Program>(source, std::move(where))), variables_(std::move(variables)) {
  if (variables_.is_null()) variables_ = Json::object();
  check_variables(variables_);
}

ChatTemplate::~ChatTemplate() = default;

bool ChatTemplate::marks_generation() const {
  return program_->mentions("endgeneration");
}

RenderedChat ChatTemplate::render(const Conversation& conversation) const {
  check(conversation);
  const Program& program = tool_program_ && !conversation.tools.is_null() ? *tool_program_ : *program_;
  Json marked;  // outlives the values, which refer to its strings
  std::string final_message;
  if (conversation.continue_final_message)
    marked = mark_final_message(conversation.messages.back(), program, &final_message);

  Workspace work;
  int line = 1;
  RenderedChat chat;
  try {
    std::vector<Value> messages;
    for (const Json& message : conversation.messages) messages.push_back(message_value(message, work));
    if (conversation.continue_final_message) messages.back() = message_value(marked, work);
    std::vector<Entry> variables = {
        {Value::string("messages"), work.list(messages)},
        {Value::string("tools"), work.from_json(conversation.tools)},
        {Value::string("documents"), work.from_json(conversation.documents)},
        {Value::string("add_generation_prompt"), Value::boolean(conversation.add_generation_prompt)}};
    for (const Json* more : {&conversation.variables, &variables_})  // the first of a name counts
      for (const auto& [name, value] : more->items())
        variables.push_back({Value::string(name), work.from_json(value)});
    Interpreter interpreter(program, std::move(variables), work);
    try {
      interpreter.run();
    } catch (const TemplateError&) {
      line = interpreter.line();
      throw;
    }
    chat = {interpreter.text(), interpreter.generation()};
  } catch (const TemplateError& error) {
    fail(ErrorCode::invalid_config, "{}:{}: {}", program.where(), line, error.what());
  }
  if (conversation.continue_final_message) cut_at_mark(chat, final_message, program.where());
  return chat;
}

}  // namespace trireme::chat
