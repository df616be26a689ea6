// The rows that tokenize, score and generate read and write: one JSON object a line.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "trainer/chat/chat_template.h"
#include "trainer/text/tokenizer.h"

namespace trireme::commands {

using Json = nlohmann::ordered_json;

/// One object of the input: it gives a text, messages or ids. Beside a text, ids are what counts: so the
/// output of one command is another's input.
struct TextRow {
  enum class Gives { text, messages, ids };
  std::string where;  // "FILE:LINE"
  Gives gives = Gives::text;
  std::string text;
  Json messages, tools;  // tools: JSON schemas beside the messages, or null
  std::vector<int32_t> ids;
  Json rest = Json::object();  // all other keys: they go to the output as they are
};

/// Throws invalid_config with all mistakes ("FILE:LINE: ...", the first 20 and how many more), io.
std::vector<TextRow> read_text_rows(const std::string& path);

/// How rows become ids and ids become text.
struct TextOptions {
  bool add_special_tokens = false;     // to texts, what the tokenizer's post-processor adds around them
  bool parse_special_tokens = true;    // false: "<|im_end|>" in a text stays text
  bool skip_special_tokens = false;    // in texts that are made from ids
  bool add_generation_prompt = false;  // conversations end with what begins an answer
  /// They end with the last message's content. With both set, only where that message is the assistant's.
  bool continue_final_message = false;
  Json template_variables = Json::object();
};

/// The tokenizer and the chat template of a folder, where the rows need them. Immutable; any thread.
class TextCodec {
 public:
  /// Throws invalid_config: the folder has no tokenizer and a row is a text, no template and a row is a
  /// conversation.
  TextCodec(const std::string& folder, const std::vector<TextRow>& rows, TextOptions options);

  /// Null where the folder has none.
  const text::Tokenizer* tokenizer() const { return tokenizer_.get(); }

  struct Encoded {
    std::string text;  // of a conversation: as the template renders it; of ids: decoded, if that is possible
    std::vector<int32_t> ids;
  };
  /// Throws invalid_config naming the row.
  Encoded encode(const TextRow& row) const;

 private:
  TextOptions options_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  std::shared_ptr<const chat::ChatTemplate> template_;
};

}  // namespace trireme::commands
