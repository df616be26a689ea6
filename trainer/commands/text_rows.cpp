#include "trainer/commands/text_rows.h"

#include <algorithm>
#include <filesystem>
#include <limits>

#include "runtime/base/error.h"
#include "trainer/data/json_rows.h"

namespace trireme::commands {
namespace {

bool is_id(const Json& value) {
  return value.is_number_integer() && value.get<int64_t>() >= 0 &&
         value.get<int64_t>() <= std::numeric_limits<int32_t>::max();
}

// What is wrong with a conversation, or nothing.
std::string messages_mistake(const Json& messages) {
  if (!messages.is_array() || messages.empty()) return "messages: expected a list of {role, content}";
  for (const Json& message : messages)
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string())
      return "messages: every entry must be an object with a role, a string";
  return "";
}

std::string take(const Json& object, TextRow& row) {
  bool has_text = false, has_messages = false, has_ids = false;
  for (const auto& item : object.items()) {
    const Json& value = item.value();
    if (item.key() == "text") {
      if (!value.is_string()) return fmt::format("text: expected a string, found {}", value.type_name());
      row.text = value.get<std::string>();
      has_text = true;
    } else if (item.key() == "messages") {
      if (auto mistake = messages_mistake(value); !mistake.empty()) return mistake;
      row.messages = value;
      has_messages = true;
    } else if (item.key() == "ids") {
      if (!value.is_array() || !std::ranges::all_of(value, is_id))
        return "ids: expected a list of token ids, whole numbers from 0 on";
      row.ids = value.get<std::vector<int32_t>>();
      has_ids = true;
    } else if (item.key() == "tools") {
      if (!value.is_null() && !value.is_array()) return "tools: expected a list of JSON schemas";
      row.tools = value;
    } else {
      row.rest[item.key()] = value;
    }
  }
  if (!has_text && !has_messages && !has_ids) return "there is none of text, messages and ids";
  if (has_messages && (has_text || has_ids)) return "messages beside text or ids: which of them is meant?";
  row.gives = has_ids ? TextRow::Gives::ids : has_messages ? TextRow::Gives::messages : TextRow::Gives::text;
  return "";
}

std::string file_of(const std::string& path) {
  return path == "-" ? "/dev/stdin" : path;
}

}  // namespace

std::vector<TextRow> read_text_rows(const std::string& path) {
  std::vector<TextRow> rows;
  data::RowMistakes mistakes;
  data::for_each_json_row(file_of(path), mistakes, [&](const Json& object, const std::string& where) {
    TextRow row;
    row.where = where;
    if (const std::string mistake = take(object, row); !mistake.empty())
      mistakes.add(where, mistake);
    else
      rows.push_back(std::move(row));
  });
  mistakes.throw_if_any(fmt::format("{} cannot be used:", path == "-" ? "the input" : path));
  return rows;
}

TextCodec::TextCodec(const std::string& folder, const std::vector<TextRow>& rows, TextOptions options)
    : options_(std::move(options)) {
  if (!std::filesystem::is_directory(folder))
    fail(ErrorCode::invalid_config, "the model's folder '{}' does not exist", folder);
  const auto needs = [&](TextRow::Gives kind) { return std::ranges::find(rows, kind, &TextRow::gives); };
  const auto conversation = needs(TextRow::Gives::messages), text = needs(TextRow::Gives::text);
  const bool needs_tokenizer = conversation != rows.end() || text != rows.end();
  if (needs_tokenizer || std::filesystem::exists(std::filesystem::path(folder) / "tokenizer.json"))
    tokenizer_ = text::Tokenizer::from_folder(folder);
  if (conversation == rows.end()) return;
  template_ = chat::ChatTemplate::from_folder(folder);
  if (!template_)
    fail(ErrorCode::invalid_config,
         "{}: a conversation, but {} has no chat template (chat_template.jinja, or chat_template in "
         "tokenizer_config.json): give `text` instead of `messages`",
         conversation->where, folder);
}

TextCodec::Encoded TextCodec::encode(const TextRow& row) const {
  Encoded result;
  if (row.gives == TextRow::Gives::ids) {
    result.ids = row.ids;
    if (tokenizer_) result.text = tokenizer_->decode(row.ids, options_.skip_special_tokens);
    return result;
  }
  result.text = row.text;
  if (row.gives == TextRow::Gives::messages) {
    chat::Conversation conversation{.messages = row.messages, .tools = row.tools};
    const bool answered = row.messages.back()["role"] == "assistant";
    conversation.continue_final_message =
        options_.continue_final_message && (answered || !options_.add_generation_prompt);
    conversation.add_generation_prompt =
        options_.add_generation_prompt && !conversation.continue_final_message;
    conversation.variables = options_.template_variables;
    try {
      result.text = template_->render(conversation).text;
    } catch (const Error& error) {
      fail(error.code(), "{}: {}", row.where, error.message());
    }
  }
  result.ids = tokenizer_->encode(result.text, options_.parse_special_tokens);
  if (options_.add_special_tokens && row.gives == TextRow::Gives::text)
    result.ids = tokenizer_->with_special_tokens(std::move(result.ids));
  return result;
}

}  // namespace trireme::commands
