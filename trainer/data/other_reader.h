// A problem and a response to it as another model reads them: by its chat template, in its tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trainer/data/problem.h"

namespace trireme::text {
class Tokenizer;
}
namespace trireme::chat {
class ChatTemplate;
}

namespace trireme::data {

struct OtherReader {
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::shared_ptr<const chat::ChatTemplate> chat_template;  // null: it has none
};

/// The conversation that the problem's prompt was written from (of a prompt that was text: one user message),
/// ended by the response as the assistant's. Without a template the prompt with the response behind it, between
/// the special tokens that the tokenizer puts around a text. Any thread. Throws invalid_config, naming the
/// problem's place, where the template refuses the conversation.
std::vector<int32_t> tokens_for(const OtherReader& reader, const Problem& problem, const std::string& response);

/// Empty where `reader` means the same by every id that `writer` can write; else what differs, "id 3 is 'a',
/// here 'b'".
std::string difference(const text::Tokenizer& writer, const text::Tokenizer& reader);

}  // namespace trireme::data
