#include "trainer/data/other_reader.h"

#include <fmt/format.h>

#include "runtime/base/error.h"
#include "trainer/chat/chat_template.h"
#include "trainer/text/tokenizer.h"

namespace trireme::data {
namespace {

std::string conversation_text(const chat::ChatTemplate& chat_template, const Problem& problem,
                              const std::string& response) {
  using chat::Json;
  chat::Conversation conversation;
  Json& messages = conversation.messages;
  messages = problem.messages.empty() ? Json::array({{{"role", "user"}, {"content", problem.prompt}}})
                                      : Json::parse(problem.messages);
  // A message that the data begins for the assistant goes on with what it said.
  Json& last = messages.back();
  if (last["role"] == "assistant" && last["content"].is_string())
    last["content"] = last["content"].get<std::string>() + response;
  else
    messages.push_back({{"role", "assistant"}, {"content", response}});
  try {
    return chat_template.render(conversation).text;
  } catch (const Error& error) {
    fail(ErrorCode::invalid_config, "{}: the reward model's chat template: {}", problem.where,
         error.message());
  }
}

}  // namespace

std::vector<int32_t> tokens_for(const OtherReader& reader, const Problem& problem,
                                const std::string& response) {
  const text::Tokenizer& tokenizer = *reader.tokenizer;
  if (reader.chat_template)
    return tokenizer.encode(conversation_text(*reader.chat_template, problem, response));
  return tokenizer.with_special_tokens(tokenizer.encode(problem.prompt + response));
}

std::string difference(const text::Tokenizer& writer, const text::Tokenizer& reader) {
  for (int32_t id = 0; id < writer.vocab_size(); ++id) {
    const auto written = writer.bytes_of_token(id, false);
    if (id >= reader.vocab_size())
      return fmt::format("id {} is '{}', here there are {} ids", id, written, reader.vocab_size());
    const auto read = reader.bytes_of_token(id, false);
    if (read != written) return fmt::format("id {} is '{}', here '{}'", id, written, read);
  }
  return "";
}

}  // namespace trireme::data
