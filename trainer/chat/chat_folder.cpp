// The chat template of a checkpoint's folder, and the special tokens that it may ask for.
#include <filesystem>
#include <optional>

#include "runtime/base/error.h"
#include "runtime/base/files.h"
#include "trainer/chat/chat_template.h"
#include "trainer/jinja/program.h"

namespace trireme::chat {

namespace {

namespace fs = std::filesystem;

std::optional<std::string> read_text(const fs::path& path) {
  if (!fs::exists(path)) return {};
  return files::read(path.string());
}

Json read_json(const fs::path& path) {
  const auto text = read_text(path);
  if (!text) return Json::object();
  Json json = Json::parse(*text, nullptr, false);
  if (json.is_discarded()) fail(ErrorCode::invalid_config, "{} is no JSON", path.string());
  if (!json.is_object()) fail(ErrorCode::invalid_config, "{} must hold a JSON object", path.string());
  return json;
}

// A token is text, or an object that says how it is matched.
const Json* token_text(const Json& token) {
  if (token.is_string()) return &token;
  if (token.is_object() && token.contains("content") && token["content"].is_string())
    return &token["content"];
  return nullptr;
}

// As transformers gathers them: every key that ends in _token, and the named extra tokens. An older folder
// keeps them in special_tokens_map.json, which counts only where the configuration does not list the added
// tokens.
Json special_tokens(const Json& config, const fs::path& folder) {
  Json all = config;
  const Json map = config.contains("added_tokens_decoder") ? Json::object()
                                                           : read_json(folder / "special_tokens_map.json");
  for (const auto& [key, value] : map.items()) all[key] = value;
  Json tokens = Json::object();
  const auto take = [&](const std::string& name, const Json& value) {
    if (const Json* text = token_text(value)) tokens[name] = *text;
  };
  for (const auto& [key, value] : all.items())
    if (key.size() > 6 && key.compare(key.size() - 6, 6, "_token") == 0) take(key, value);
  for (const char* group : {"extra_special_tokens", "model_specific_special_tokens"})
    if (all.contains(group) && all[group].is_object())
      for (const auto& [key, value] : all[group].items()) take(key, value);
  return tokens;
}

struct Source {
  std::string text, where;
};

// The template of that name in tokenizer_config.json.
std::optional<Source> configured(const Json& config, const std::string& name, const fs::path& path) {
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return {};
  const std::string where = path.string() + " chat_template";
  if (found->is_string())
    return name == "default" ? std::optional<Source>({found->get<std::string>(), where}) : std::nullopt;
  if (!found->is_array())
    fail(ErrorCode::invalid_config, "{}: chat_template must be text or a list of named templates",
         path.string());
  std::optional<Source> source;
  for (const Json& one : *found) {
    if (!one.is_object() || !one.contains("name") || !one["name"].is_string() || !one.contains("template") ||
        !one["template"].is_string())
      fail(ErrorCode::invalid_config, "{}: an entry of chat_template needs a name and a template",
           path.string());
    if (one["name"] == name) source = {one["template"].get<std::string>(), where + " \"" + name + "\""};
  }
  if (!source && name == "default")
    fail(ErrorCode::invalid_config, "{}: none of its chat templates is named \"default\"", path.string());
  return source;
}

}  // namespace

std::shared_ptr<const ChatTemplate> ChatTemplate::from_folder(const std::string& folder) {
  const fs::path config_path = fs::path(folder) / "tokenizer_config.json";
  const fs::path own_path = fs::path(folder) / "chat_template.jinja";
  const fs::path tools_path = fs::path(folder) / "additional_chat_templates" / "tool_use.jinja";
  const Json config = read_json(config_path);
  std::optional<Source> standard, with_tools;
  if (const auto text = read_text(own_path)) {
    standard = {*text, own_path.string()};
    if (const auto tools = read_text(tools_path)) with_tools = {*tools, tools_path.string()};
  } else {
    standard = configured(config, "default", config_path);
    with_tools = configured(config, "tool_use", config_path);
  }
  if (!standard) return nullptr;
  auto chat = std::make_shared<ChatTemplate>(standard->text, special_tokens(config, folder), standard->where);
  if (with_tools)
    chat->tool_program_ = std::make_unique<const jinja::Program>(with_tools->text, with_tools->where);
  return chat;
}

}  // namespace trireme::chat
