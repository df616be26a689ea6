// Rows of preference data: which part is the prompt, and the texts of both answers.
#include <algorithm>

#include "trainer/data/problem_reader.h"

namespace trireme::data {
namespace {

// How many of their first `most` bytes two texts have in common, in whole characters.
size_t common_length(const std::string& a, const std::string& b, size_t most = std::string::npos) {
  auto length = static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
  length = std::min(length, most);
  const auto is_inside = [&](const std::string& text) {
    return length < text.size() && (static_cast<unsigned char>(text[length]) & 0xC0U) == 0x80U;
  };
  while (length > 0 && (is_inside(a) || is_inside(b))) --length;
  return length;
}

// How many messages both begin with; each keeps one at least.
size_t common_messages(const Row& a, const Row& b) {
  const size_t most = std::min(a.size(), b.size()) - 1;
  size_t count = 0;
  while (count < most && a[count] == b[count]) ++count;
  return count;
}

// Moves the first `count` messages of `from` to the result.
Row take_first(Row& from, size_t count) {
  Row first = Row::array();
  for (size_t i = 0; i < count; ++i) first.push_back(from[i]);
  from.erase(from.begin(), from.begin() + static_cast<ptrdiff_t>(count));
  return first;
}

chat::Conversation conversation_of(const Row& prompt, const Row& answer) {
  chat::Conversation conversation;
  conversation.messages = prompt;
  for (const Row& message : answer) conversation.messages.push_back(message);
  conversation.add_generation_prompt = answer.empty();
  return conversation;
}

}  // namespace

bool ProblemReader::read_pair(const Row& row, Problem& problem) {
  const Row* prompt = find_value(row, config_.prompt_key);
  if (prompt && prompt->is_null()) prompt = nullptr;
  const Row* const chosen = required(row, config_.chosen_key, "data.chosen_key");
  const Row* const rejected = required(row, config_.rejected_key, "data.rejected_key");
  if (!chosen || !rejected) return false;
  const bool all_text =
      chosen->is_string() && rejected->is_string() && (prompt == nullptr || prompt->is_string());
  if (all_text && config_.apply_chat_template != "always")
    return read_texts(prompt, *chosen, *rejected, problem);
  if (config_.apply_chat_template == "never") {
    mistakes_.add(where_,
                  "data.apply_chat_template = \"never\" takes a prompt and answers of plain text only");
    return false;
  }
  const auto better = answers_of(*chosen, config_.chosen_key);
  const auto worse = answers_of(*rejected, config_.rejected_key);
  std::optional<Row> asked = Row::array();
  if (prompt)
    asked = prompt->is_string() ? Row::array({{{"role", "user"}, {"content", *prompt}}})
                                : messages_of(*prompt, config_.prompt_key);
  if (!better || !worse || !asked) return false;
  return read_chats(std::move(*asked), *better, *worse, prompt && prompt->is_array(), problem);
}

bool ProblemReader::read_texts(const Row* prompt, const Row& chosen, const Row& rejected, Problem& problem) {
  problem.response = chosen.get<std::string>();
  problem.rejected = rejected.get<std::string>();
  if (prompt) {
    problem.prompt = in_prompt_template(prompt->get<std::string>());
  } else {
    // As TRL does: each answer keeps a character at least, and a blank before the difference.
    const size_t shorter = std::min(problem.response.size(), problem.rejected.size());
    size_t length = common_length(problem.response, problem.rejected, std::max<size_t>(shorter, 1) - 1);
    const bool differ = problem.response.compare(0, shorter, problem.rejected, 0, shorter) != 0;
    if (length > 0 && differ && problem.response[length - 1] == ' ') --length;
    if (length > 0) problem.prompt = in_prompt_template(problem.response.substr(0, length));
    problem.response.erase(0, length);
    problem.rejected.erase(0, length);
  }
  return !problem.prompt.empty() || has_no_prompt();
}

// Text, one message, or messages: as messages.
std::optional<Row> ProblemReader::answers_of(const Row& value, const std::string& key) {
  if (value.is_string()) return Row::array({{{"role", "assistant"}, {"content", value}}});
  auto messages = messages_of(value.is_object() ? Row::array({value}) : value, key);
  if (!messages || !messages->empty()) return messages;
  mistakes_.add(where_, fmt::format("column '{}': the conversation is empty", key));
  return std::nullopt;
}

// Answers that do not begin with an assistant's message tell the conversation from its beginning, unless the
// prompt's own column does (`is_apart`): then what both begin with is the prompt.
bool ProblemReader::read_chats(Row prompt, Row chosen, Row rejected, bool is_apart, Problem& problem) {
  if (!is_apart && chosen.front().at("role") != "assistant") {
    const size_t count = common_messages(chosen, rejected);
    prompt = take_first(chosen, count);
    take_first(rejected, count);
  }
  if (prompt.empty()) return has_no_prompt();
  if (!has_template(config_.chosen_key)) return false;
  prompt = with_prompt_template(std::move(prompt));
  const auto question = rendered(conversation_of(prompt, Row::array()), config_.prompt_key);
  if (!question) return false;
  const auto better = rendered(conversation_of(prompt, chosen), config_.chosen_key);
  const auto worse = rendered(conversation_of(prompt, rejected), config_.rejected_key);
  if (!better || !worse) return false;
  // Where a template writes the end of a prompt otherwise once it is answered, that end is the answers'.
  const size_t length = std::min(common_length(*question, *better), common_length(*question, *worse));
  if (length == 0) return has_no_prompt();
  problem.prompt = question->substr(0, length);
  problem.response = better->substr(length);
  problem.rejected = worse->substr(length);
  problem.is_chat = true;
  return true;
}

bool ProblemReader::has_no_prompt() {
  mistakes_.add(where_,
                fmt::format("there is no prompt: no column '{}' (data.prompt_key), and '{}' and '{}' begin "
                            "with nothing in common",
                            config_.prompt_key, config_.chosen_key, config_.rejected_key));
  return false;
}

}  // namespace trireme::data
