#include "trainer/data/problem_reader.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <utility>

namespace trireme::data {
namespace {

constexpr const char* kPlaceholder = "{prompt}";
constexpr const char* kDataSource = "data_source";
constexpr const char* kExtraInfo = "extra_info";
// Where verl keeps the answer; taken before the column "answer", which is there by default.
constexpr const char* kVerlAnswer = "reward_model.ground_truth";

bool has_default_answer_key(const DataConfig& config) {
  return config.answer_key == DataConfig{}.answer_key;
}

std::vector<std::string> names_of(const Row& row) {
  std::vector<std::string> names;
  for (const auto& item : row.items()) names.push_back(item.key());
  return names;
}

std::string dumped(const Row& value) {
  return value.dump(-1, ' ', false, Row::error_handler_t::replace);
}

bool is_from_assistant(const Row& message) {
  return message["role"] == "assistant";
}

}  // namespace

ProblemReader::ProblemReader(const DataConfig& config, const std::string& response_key,
                             const chat::ChatTemplate* chat_template, RowMistakes& mistakes)
    : config_(config), response_key_(response_key), chat_template_(chat_template), mistakes_(mistakes) {
  template_variables_ = Row::parse(config.chat_template_kwargs, nullptr, /*allow_exceptions=*/false);
  columns_ = {config.prompt_key, config.answer_key, kDataSource, kExtraInfo};
  if (has_default_answer_key(config)) columns_.push_back(kVerlAnswer);
  if (!response_key.empty()) columns_.push_back(response_key);
}

bool ProblemReader::check_columns(const std::vector<std::string>& names, const std::string& path) {
  const int64_t before = mistakes_.count();
  const auto there = [&](const std::string& key) {
    return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return name == key || (name.starts_with(key) && name[key.size()] == '.');
    });
  };
  const auto require = [&](const std::string& key, const char* setting) {
    if (!key.empty() && !there(key)) mistakes_.add(path, missing(key, setting, names));
  };
  require(config_.prompt_key, "data.prompt_key");
  if (!has_default_answer_key(config_) || !there(kVerlAnswer)) require(config_.answer_key, "data.answer_key");
  if (response_key_ != config_.answer_key || there(kVerlAnswer)) require(response_key_, "sft.response_key");
  return mistakes_.count() == before;
}

void ProblemReader::read_row(const Row& row, const std::string& path, const std::string& where) {
  where_ = where;
  auto prompt = prompt_of(row);
  auto answer = answer_of(row);
  auto response = response_of(row);
  std::optional<std::string> source = std::filesystem::path(path).stem().string();
  if (const Row* value = find_value(row, kDataSource); value && !value->is_null())
    source = text_of(*value, kDataSource);
  if (!prompt || !answer || !response || !source) return;
  Problem problem;
  problem.index = static_cast<int64_t>(problems_.size());
  problem.data_source = std::move(*source);
  problem.prompt = std::move(*prompt);
  problem.answer = ground_truth_of(*answer);
  problem.response = std::move(*response);
  if (const Row* extra = find_value(row, kExtraInfo); extra && !extra->is_null())
    problem.extra_info = dumped(*extra);
  problem.where = where_;
  problems_.push_back(std::move(problem));
}

std::string ProblemReader::missing(const std::string& key, const char* setting,
                                   const std::vector<std::string>& names) const {
  const std::string near = nearest(key, names);
  return fmt::format("no column '{}' ({}); the columns are: {}{}", key, setting,
                     names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")),
                     near.empty() ? "" : fmt::format("; did you mean '{}'?", near));
}

const Row* ProblemReader::required(const Row& row, const std::string& key, const char* setting) {
  const Row* value = find_value(row, key);
  if (!value) mistakes_.add(where_, missing(key, setting, names_of(row)));
  return value;
}

std::nullopt_t ProblemReader::wrong(const std::string& key, const std::string& expected, const Row& value) {
  mistakes_.add(where_, fmt::format("column '{}': expected {}, found {}", key, expected, value.type_name()));
  return std::nullopt;
}

std::optional<std::string> ProblemReader::text_of(const Row& value, const std::string& key) {
  if (value.is_string()) return value.get<std::string>();
  return wrong(key, "a string", value);
}

// Lists and objects stay JSON: a reward may know what to do with them.
std::optional<std::string> ProblemReader::answer_of(const Row& row) {
  std::string key = config_.answer_key;
  if (key.empty()) return "";
  const Row* value = has_default_answer_key(config_) ? find_value(row, kVerlAnswer) : nullptr;
  if (value)
    key = kVerlAnswer;
  else
    value = required(row, key, "data.answer_key");
  if (!value) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  if (value->is_number() || value->is_structured()) return dumped(*value);
  return wrong(key, "a string or a number", *value);
}

// Text, or what an assistant says: the last message of the prompt's own column, or the only one of another.
std::optional<std::string> ProblemReader::response_of(const Row& row) {
  if (response_key_.empty()) return "";
  const bool is_answer = response_key_ == config_.answer_key;
  const Row* value =
      is_answer ? find_value(row, response_key_) : required(row, response_key_, "sft.response_key");
  if (!value) {
    // The missing column is told once, as the answer's, unless the answer came from elsewhere.
    if (is_answer && find_value(row, kVerlAnswer)) required(row, response_key_, "sft.response_key");
    return std::nullopt;
  }
  if (value->is_string()) return value->get<std::string>();
  if (value->is_number() && is_answer) return dumped(*value);
  if (is_answer || !value->is_array()) return is_answer ? std::nullopt : text_of(*value, response_key_);
  const auto messages = messages_of(*value, response_key_);
  if (!messages) return std::nullopt;
  const bool is_prompt = response_key_ == config_.prompt_key;
  if (messages->empty() || !is_from_assistant(messages->back()) || (!is_prompt && messages->size() > 1)) {
    mistakes_.add(where_, fmt::format("column '{}': expected {} (sft.response_key)", response_key_,
                                      is_prompt ? "a conversation that ends with an assistant's message"
                                                : "text, or a single message of an assistant"));
    return std::nullopt;
  }
  return text_of(messages->back()["content"], response_key_);
}

std::optional<std::string> ProblemReader::prompt_of(const Row& row) {
  const std::string& key = config_.prompt_key;
  const Row* value = required(row, key, "data.prompt_key");
  if (!value) return std::nullopt;
  if (value->is_string()) {
    const auto text = value->get<std::string>();
    if (!text.empty())
      return config_.apply_chat_template == "always"
                 ? rendered(Row::array({{{"role", "user"}, {"content", text}}}), key)
                 : in_prompt_template(text);
    mistakes_.add(where_, fmt::format("column '{}': the prompt is empty", key));
    return std::nullopt;
  }
  auto messages = messages_of(*value, key);
  if (!messages) return std::nullopt;
  // What SFT learns is no part of the prompt.
  if (response_key_ == key && !messages->empty() && is_from_assistant(messages->back()))
    messages->erase(messages->size() - 1);
  if (messages->empty()) {
    mistakes_.add(where_, fmt::format("column '{}': the conversation is empty", key));
    return std::nullopt;
  }
  if (config_.apply_chat_template != "never") return rendered(std::move(*messages), key);
  std::vector<std::string> roles;
  for (const Row& message : *messages) roles.push_back(message["role"].get<std::string>());
  if (roles == std::vector<std::string>{"user"})
    return in_prompt_template(messages->front()["content"].get<std::string>());
  mistakes_.add(where_,
                fmt::format("column '{}': a conversation of [{}]; data.apply_chat_template = \"never\" "
                            "takes only a single user message",
                            key, fmt::join(roles, ", ")));
  return std::nullopt;
}

// The list of messages, if it is one. What an assistant calls may stand for what it says.
std::optional<Row> ProblemReader::messages_of(const Row& value, const std::string& key) {
  if (!value.is_array()) return wrong(key, "a string or a list of {role, content}", value);
  for (const Row& message : value) {
    if (!message.is_object() || !message.contains("role") || !message.contains("content"))
      return wrong(key, "a list of {role, content}; one entry is", message);
    const bool has_calls = message.contains("tool_calls") && message["tool_calls"].is_array();
    if (!message["role"].is_string() ||
        !(message["content"].is_string() || (has_calls && message["content"].is_null())))
      return wrong(key, "strings for role and content; one entry is", message);
  }
  return value;
}

// As the model was taught: an assistant begins to answer, or goes on with what the data begins for it.
std::optional<std::string> ProblemReader::rendered(Row messages, const std::string& key) {
  if (!chat_template_) {
    if (!std::exchange(told_of_template_, true))
      mistakes_.add(
          where_,
          fmt::format("column '{}': conversations need a chat template, and the tokenizer's folder has "
                      "none: put the model's chat_template.jinja or tokenizer_config.json there, or set "
                      "data.apply_chat_template = \"never\" to take single user messages as plain text",
                      key));
    return std::nullopt;
  }
  for (size_t i = messages.size(); i-- > 0;)
    if (messages[i]["role"] == "user") {
      messages[i]["content"] = in_prompt_template(messages[i]["content"].get<std::string>());
      break;
    }
  chat::Conversation conversation;
  conversation.continue_final_message = is_from_assistant(messages.back());
  conversation.add_generation_prompt = !conversation.continue_final_message;
  conversation.messages = std::move(messages);
  conversation.variables = template_variables_;
  try {
    return chat_template_->render(conversation).text;
  } catch (const Error& error) {
    mistakes_.add(where_, fmt::format("column '{}': {}", key, error.message()));
    return std::nullopt;
  }
}

std::string ProblemReader::in_prompt_template(const std::string& prompt) const {
  const std::string placeholder = kPlaceholder;
  std::string text = config_.prompt_template;
  for (size_t at = text.find(placeholder); at != std::string::npos;
       at = text.find(placeholder, at + prompt.size()))
    text.replace(at, placeholder.size(), prompt);
  return text;
}

std::string ground_truth_of(const std::string& answer) {
  const std::string mark = "####";
  const size_t at = answer.rfind(mark);
  std::string truth = at == std::string::npos ? answer : answer.substr(at + mark.size());
  const char* const blanks = " \t\r\n";
  truth.erase(0, std::min(truth.find_first_not_of(blanks), truth.size()));
  truth.erase(truth.find_last_not_of(blanks) + 1);
  return truth;
}

}  // namespace trireme::data
