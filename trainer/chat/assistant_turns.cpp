#include "trainer/chat/assistant_turns.h"

#include <algorithm>
#include <string_view>

#include "runtime/base/error.h"

namespace trireme::chat {
namespace {

constexpr const char* kRemedy =
    "put {% generation %} and {% endgeneration %} around what the assistant writes in a chat_template.jinja "
    "beside the tokenizer, or take another template";

bool is_assistant(const Json& message) {
  const auto role = message.find("role");
  return role != message.end() && *role == "assistant";
}

// The last bytes before `at` and the first ones after it, without cutting a character.
std::string around(const std::string& text, size_t at) {
  constexpr size_t kShown = 40;
  const auto is_inside = [&](size_t i) { return i < text.size() && (text[i] & 0xC0) == 0x80; };
  size_t begin = at > kShown ? at - kShown : 0, end = std::min(text.size(), at + kShown);
  while (is_inside(begin)) ++begin;
  while (is_inside(end)) ++end;
  return Json(text.substr(begin, end - begin)).dump(-1, ' ', false, Json::error_handler_t::replace);
}

class TurnFinder {
 public:
  TurnFinder(const ChatTemplate& chat_template, const Conversation& conversation)
      : template_(chat_template), conversation_(conversation) {}

  void add_turn(size_t index) {
    if (index == 0)
      fail(ErrorCode::invalid_config,
           "the conversation begins with an assistant's message, which answers nothing: put a user's or a "
           "system message before it");
    const std::string question = rendered(index, /*asks=*/true), answered = rendered(index + 1, false);
    const auto [in_question, in_answer] =
        std::mismatch(question.begin(), question.end(), answered.begin(), answered.end());
    if (in_question != question.end()) {
      const auto at = static_cast<size_t>(in_question - question.begin());
      fail(
          ErrorCode::invalid_config,
          "what the assistant says in message {} cannot be told from the rest: the template asks for it with "
          "{}, and writes it as {}; {}",
          index + 1, around(question, at), around(answered, at), kRemedy);
    }
    if (in_answer == answered.end())
      fail(ErrorCode::invalid_config, "the template writes nothing of the assistant's message {}", index + 1);
    if (texts_.empty() || !question.starts_with(texts_.back().text)) texts_.emplace_back();
    texts_.back().turns.emplace_back(question.size(), answered.size());
    texts_.back().text = answered;
  }

  std::vector<TurnsText> take() { return std::move(texts_); }

 private:
  std::string rendered(size_t num_messages, bool asks) const {
    Conversation part = conversation_;
    part.messages.erase(part.messages.begin() + static_cast<ptrdiff_t>(num_messages), part.messages.end());
    part.add_generation_prompt = asks;
    return template_.render(part).text;
  }

  const ChatTemplate& template_;
  const Conversation& conversation_;
  std::vector<TurnsText> texts_;
};

}  // namespace

std::vector<TurnsText> assistant_turns(const ChatTemplate& chat_template, const Conversation& conversation,
                                       size_t first) {
  const Json& messages = conversation.messages;
  std::vector<size_t> turns;
  for (size_t i = first; i < messages.size(); ++i)
    if (is_assistant(messages[i])) turns.push_back(i);
  if (turns.empty())
    fail(ErrorCode::invalid_config, "no message {}is an assistant's: there is nothing to learn",
         first == 0 ? "" : "after the prompt ");
  if (first == 0 && chat_template.marks_generation()) {
    RenderedChat chat = chat_template.render(conversation);
    std::erase_if(chat.generation, [](const auto& span) { return span.first >= span.second; });
    if (chat.generation.empty())
      fail(ErrorCode::invalid_config,
           "the template has {{% generation %}}, but marks nothing of this conversation's {} assistant turns",
           turns.size());
    return {{std::move(chat.text), std::move(chat.generation)}};
  }
  TurnFinder finder(chat_template, conversation);
  for (const size_t turn : turns) finder.add_turn(turn);
  return finder.take();
}

}  // namespace trireme::chat
