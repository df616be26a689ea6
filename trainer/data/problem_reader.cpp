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
// A row's own variables for the chat template: all of them, as TRL has them, or the one that verl has.
constexpr const char* kTemplateVariables = "chat_template_kwargs";
constexpr const char* kEnableThinking = "enable_thinking";
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

ProblemReader::ProblemReader(const DataConfig& config, const LearnedColumns& learned,
                             const chat::ChatTemplate* chat_template, RowMistakes& mistakes)
    : config_(config),
      learned_(learned),
      response_key_(learned.response),
      chat_template_(chat_template),
      mistakes_(mistakes) {
  template_variables_ = Row::parse(config.chat_template_kwargs, nullptr, /*allow_exceptions=*/false);
  if (learned.pairs) {
    columns_ = {config.prompt_key, config.chosen_key, config.rejected_key, kDataSource, kExtraInfo};
    return;
  }
  columns_ = {config.prompt_key, config.answer_key, kDataSource, kExtraInfo};
  if (has_default_answer_key(config)) columns_.push_back(kVerlAnswer);
  if (!response_key_.empty()) columns_.push_back(response_key_);
  if (learns_conversations())
    for (const std::string& key :
         {learned.messages, learned.tools, std::string(kTemplateVariables), std::string(kEnableThinking)})
      columns_.push_back(key);
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
  if (learned_.pairs) {  // they may tell the prompt too
    require(config_.chosen_key, "data.chosen_key");
    require(config_.rejected_key, "data.rejected_key");
    return mistakes_.count() == before;
  }
  if (learns_conversations() && there(learned_.messages)) return true;
  require(config_.prompt_key, "data.prompt_key");
  if (!learns_conversations() && (!has_default_answer_key(config_) || !there(kVerlAnswer)))
    require(config_.answer_key, "data.answer_key");
  if (response_key_ != config_.answer_key || there(kVerlAnswer)) require(response_key_, "sft.response_key");
  return mistakes_.count() == before;
}

void ProblemReader::read_row(const Row& row, const std::string& path, const std::string& where) {
  where_ = where;
  Problem problem;
  const bool is_conversation =
      learns_conversations() && learned_.messages != response_key_ && find_value(row, learned_.messages);
  const bool complete = learned_.pairs    ? read_pair(row, problem)
                        : is_conversation ? read_conversation(row, problem)
                                          : read_problem(row, problem);
  std::optional<std::string> source = std::filesystem::path(path).stem().string();
  if (const Row* value = find_value(row, kDataSource); value && !value->is_null())
    source = text_of(*value, kDataSource);
  if (!complete || !source) return;
  problem.index = static_cast<int64_t>(problems_.size());
  problem.data_source = std::move(*source);
  if (const Row* extra = find_value(row, kExtraInfo); extra && !extra->is_null())
    problem.extra_info = dumped(*extra);
  problem.where = where_;
  problems_.push_back(std::move(problem));
}

bool ProblemReader::read_problem(const Row& row, Problem& problem) {
  problem.is_judged = !learns_conversations() || find_value(row, config_.answer_key) ||
                      (has_default_answer_key(config_) && find_value(row, kVerlAnswer));
  messages_.clear();
  auto prompt = prompt_of(row);
  auto answer = problem.is_judged ? answer_of(row) : "";
  const Row* asked = find_value(row, config_.prompt_key);
  const Row* said = response_key_.empty() ? nullptr : find_value(row, response_key_);
  // Both as messages: the template writes what is learned too.
  if (learns_conversations() && asked && said && asked != said && asked->is_array() && said->is_array()) {
    if (!prompt || !answer || !add_conversation(row, *asked, said, problem)) return false;
  } else {
    auto response = response_of(row);
    if (!prompt || !answer || !response) return false;
    problem.response = std::move(*response);
  }
  problem.prompt = std::move(*prompt);
  problem.messages = std::move(messages_);
  problem.answer = ground_truth_of(*answer);
  return true;
}

bool ProblemReader::read_conversation(const Row& row, Problem& problem) {
  problem.is_judged = false;
  return add_conversation(row, *find_value(row, learned_.messages), nullptr, problem);
}

// `asked`, with the turns to learn in it, or in `said` behind it.
bool ProblemReader::add_conversation(const Row& row, const Row& asked, const Row* said, Problem& problem) {
  const std::string& key = said ? config_.prompt_key : learned_.messages;
  auto messages = messages_of(asked, key);
  auto learned = said ? messages_of(*said, response_key_) : Row::array();
  if (!messages || !learned || !has_template(key)) return false;
  Row conversation;
  conversation["first"] = said ? messages->size() : 0;
  conversation["messages"] = with_prompt_template(std::move(*messages));
  for (Row& message : *learned) conversation["messages"].push_back(std::move(message));
  conversation["variables"] = template_variables_;
  if (!set_tools_and_variables(row, conversation)) return false;
  problem.conversation = dumped(conversation);
  return true;
}

bool ProblemReader::set_tools_and_variables(const Row& row, Row& conversation) {
  if (const Row* tools = find_value(row, learned_.tools); tools && !tools->is_null()) {
    // Parquet files often have them as text, since tools differ in their parameters.
    conversation["tools"] =
        tools->is_string() ? Row::parse(tools->get<std::string>(), nullptr, false) : *tools;
    if (!conversation["tools"].is_array()) {
      wrong(learned_.tools, "a list of tools, or one as JSON", *tools);
      return false;
    }
    if (conversation["tools"].empty()) conversation.erase("tools");
  }
  if (const Row* variables = find_value(row, kTemplateVariables); variables && !variables->is_null()) {
    if (!variables->is_object()) {
      wrong(kTemplateVariables, "an object", *variables);
      return false;
    }
    for (const auto& [name, value] : variables->items()) conversation["variables"][name] = value;
  }
  if (const Row* thinking = find_value(row, kEnableThinking); thinking && thinking->is_boolean())
    conversation["variables"][kEnableThinking] = *thinking;
  return true;
}

std::string ProblemReader::missing(const std::string& key, const char* setting,
                                   const std::vector<std::string>& names) const {
  const std::string near = nearest(key, names);
  const bool or_messages = learns_conversations() && key == config_.prompt_key;
  return fmt::format(
      "no column '{}' ({}){}; the columns are: {}{}", key, setting,
      or_messages ? fmt::format(", nor '{}' (sft.messages_key) with a conversation", learned_.messages) : "",
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
  if (!value.is_array())
    return wrong(
        key, key == learned_.messages ? "a list of {role, content}" : "a string or a list of {role, content}",
        value);
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
  if (!has_template(key)) return std::nullopt;
  messages = with_prompt_template(std::move(messages));
  chat::Conversation conversation;
  conversation.continue_final_message = is_from_assistant(messages.back());
  conversation.add_generation_prompt = !conversation.continue_final_message;
  if (learned_.keeps_messages) messages_ = dumped(messages);
  conversation.messages = std::move(messages);
  return rendered(std::move(conversation), key);
}

std::optional<std::string> ProblemReader::rendered(chat::Conversation conversation, const std::string& key) {
  conversation.variables = template_variables_;
  try {
    return chat_template_->render(conversation).text;
  } catch (const Error& error) {
    mistakes_.add(where_, fmt::format("column '{}': {}", key, error.message()));
    return std::nullopt;
  }
}

bool ProblemReader::has_template(const std::string& key) {
  if (chat_template_) return true;
  if (!std::exchange(told_of_template_, true))
    mistakes_.add(
        where_,
        fmt::format("column '{}': conversations need a chat template, and {}{}", key,
                    config_.apply_chat_template == "never"
                        ? "data.apply_chat_template is \"never\""
                        : "the tokenizer's folder has none: put the model's chat_template.jinja or "
                          "tokenizer_config.json there",
                    learns_conversations() ? ""
                                           : ", or set data.apply_chat_template = \"never\" to take single "
                                             "user messages as plain text"));
  return false;
}

Row ProblemReader::with_prompt_template(Row messages) const {
  for (size_t i = messages.size(); i-- > 0;)
    if (messages[i]["role"] == "user" && messages[i]["content"].is_string()) {
      messages[i]["content"] = in_prompt_template(messages[i]["content"].get<std::string>());
      break;
    }
  return messages;
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
  const char* const blanks = " \t\r\n";
  std::string truth = at == std::string::npos ? answer : answer.substr(at + mark.size());
  // Not within tests, which are JSON or lines of code: there it is a comment.
  const size_t begin = answer.find_first_not_of(blanks), line = truth.find('\n');
  if (at != std::string::npos &&
      (answer[begin] == '{' || answer[begin] == '[' ||
       (line != std::string::npos && truth.find_first_not_of(blanks, line) != std::string::npos)))
    truth = answer;
  truth.erase(0, std::min(truth.find_first_not_of(blanks), truth.size()));
  truth.erase(truth.find_last_not_of(blanks) + 1);
  return truth;
}

}  // namespace trireme::data
