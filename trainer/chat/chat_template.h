// A conversation to the text that a model was trained on, by the template that comes with its tokenizer: the
// part of Jinja that the templates of Qwen2.5, Qwen3 and Llama 3 use, as transformers renders it. Torch-free.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace trireme::jinja {
class Program;  // a parsed template
}

namespace trireme::chat {

using Json = nlohmann::ordered_json;  // templates write objects in the order in which they came

/// What a template is given.
struct Conversation {
  Json messages =
      Json::array();  // [{"role": ..., "content": ..., "tool_calls": ...}, ...]; null values are as absent
  Json tools;         // JSON schemas of functions; null: none
  Json documents;     // null: none
  bool add_generation_prompt = false;   // ends with what begins an answer
  bool continue_final_message = false;  // ends with the last message's content: it is to be continued
  /// More names a template may ask for, {"enable_thinking": false}. A template that asks strftime_now for
  /// today takes "date_string" instead where it knows that name: set it in runs that must be repeated to the
  /// byte.
  Json variables = Json::object();
};

struct RenderedChat {
  std::string text;
  /// Bytes [begin, end) of text that stand within {% generation %}: what the assistant said.
  std::vector<std::pair<size_t, size_t>> generation;
};

/// Immutable; any thread.
class ChatTemplate {
 public:
  /// chat_template.jinja, else the chat_template of tokenizer_config.json (of a list of them the one named
  /// "default", and "tool_use" for conversations with tools), with that file's special tokens (bos_token,
  /// eos_token, ...) as variables. Null where the folder has none. Throws invalid_config naming file, line
  /// and construct if it cannot be used.
  static std::shared_ptr<const ChatTemplate> from_folder(const std::string& folder);

  /// `variables`: an object of names that every rendering sees. `where` stands before lines in messages.
  ChatTemplate(const std::string& source, Json variables, std::string where);
  ~ChatTemplate();

  /// Throws invalid_config: what the template itself refuses (raise_exception), or what it does that has no
  /// meaning for these messages, with its line.
  RenderedChat render(const Conversation& conversation) const;

  /// Whether it has {% generation %}, which marks what the assistant says.
  bool marks_generation() const;

 private:
  std::unique_ptr<const jinja::Program> program_, tool_program_;  // the second may be null
  Json variables_;
};

}  // namespace trireme::chat
