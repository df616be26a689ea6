#include "trainer/data/problem_set.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <optional>
#include <utility>

#include "trainer/data/arithmetic.h"
#include "trainer/data/counter_random.h"
#include "trainer/data/json_rows.h"
#include "trainer/data/tokenizer.h"

namespace trireme::data {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kSplitStream = 0x73706c6974;  // "split"
constexpr const char* kPlaceholder = "{prompt}";

// Reads one row after the other into problems.
class ColumnReader {
 public:
  ColumnReader(const DataConfig& config, const std::string& response_key, RowMistakes& mistakes)
      : config_(config), response_key_(response_key), mistakes_(mistakes) {}

  void read_row(const Json& row, const std::string& path, int64_t line) {
    where_ = fmt::format("{}:{}", path, line);
    Problem problem;
    problem.where = where_;
    problem.data_source = std::filesystem::path(path).stem().string();
    bool good = true;
    const auto take = [&](const std::string& key, const char* setting, auto&& convert, std::string& into) {
      if (key.empty()) return;
      const Json* value = column(row, key, setting);
      std::optional<std::string> text = value ? convert(*value, key) : std::nullopt;
      good = good && text.has_value();
      if (text) into = std::move(*text);
    };
    const auto prompt = [this](const Json& value, const std::string& key) { return prompt_of(value, key); };
    const auto scalar = [this](const Json& value, const std::string& key) {
      return text_or_number(value, key);
    };
    const auto text = [this](const Json& value, const std::string& key) { return text_of(value, key); };
    take(config_.prompt_key, "data.prompt_key", prompt, problem.prompt);
    take(config_.answer_key, "data.answer_key", scalar, problem.answer);
    if (response_key_ != config_.answer_key)
      take(response_key_, "sft.response_key", text, problem.response);
    else
      problem.response = problem.answer;
    if (row.contains("data_source")) take("data_source", "", text, problem.data_source);
    if (!good) return;
    problem.prompt = in_template(problem.prompt);
    problem.answer = ground_truth_of(problem.answer);
    problem.index = static_cast<int64_t>(problems_.size());
    problems_.push_back(std::move(problem));
  }

  std::vector<Problem> take_problems() { return std::move(problems_); }

 private:
  const Json* column(const Json& row, const std::string& key, const char* setting) {
    const auto found = row.find(key);
    if (found != row.end()) return &*found;
    std::vector<std::string> names;
    for (const auto& item : row.items()) names.push_back(item.key());
    const std::string near = nearest(key, names);
    mistakes_.add(where_, fmt::format("no column '{}' ({}); the columns are: {}{}", key, setting,
                                      names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")),
                                      near.empty() ? "" : fmt::format("; did you mean '{}'?", near)));
    return nullptr;
  }

  std::optional<std::string> wrong(const std::string& key, const std::string& expected, const Json& value) {
    mistakes_.add(where_,
                  fmt::format("column '{}': expected {}, found {}", key, expected, value.type_name()));
    return std::nullopt;
  }

  std::optional<std::string> text_of(const Json& value, const std::string& key) {
    if (value.is_string()) return value.get<std::string>();
    return wrong(key, "a string", value);
  }

  std::optional<std::string> text_or_number(const Json& value, const std::string& key) {
    if (value.is_number()) return value.dump();
    if (value.is_string()) return value.get<std::string>();
    return wrong(key, "a string or a number", value);
  }

  // A string, or a conversation of which only one user message can be taken: more needs a chat template.
  std::optional<std::string> prompt_of(const Json& value, const std::string& key) {
    if (value.is_string()) {
      const auto text = value.get<std::string>();
      if (!text.empty()) return text;
      mistakes_.add(where_, fmt::format("column '{}': the prompt is empty", key));
      return std::nullopt;
    }
    if (!value.is_array()) return wrong(key, "a string or a list of {role, content}", value);
    std::vector<std::string> roles;
    for (const Json& message : value) {
      if (!message.is_object() || !message.contains("role") || !message.contains("content"))
        return wrong(key, "a list of {role, content}; one entry is", message);
      if (!message["role"].is_string() || !message["content"].is_string())
        return wrong(key, "strings for role and content; one entry is", message);
      roles.push_back(message["role"].get<std::string>());
    }
    if (roles == std::vector<std::string>{"user"}) return prompt_of(value[0]["content"], key);
    mistakes_.add(where_,
                  fmt::format("column '{}': a conversation of [{}]; only a single user message can be taken, "
                              "since chat templates are not supported yet",
                              key, fmt::join(roles, ", ")));
    return std::nullopt;
  }

  std::string in_template(const std::string& prompt) const {
    const std::string placeholder = kPlaceholder;
    std::string text = config_.prompt_template;
    for (size_t at = text.find(placeholder); at != std::string::npos;
         at = text.find(placeholder, at + prompt.size()))
      text.replace(at, placeholder.size(), prompt);
    return text;
  }

  const DataConfig& config_;
  const std::string& response_key_;
  RowMistakes& mistakes_;
  std::string where_;
  std::vector<Problem> problems_;
};

// False if the file cannot be taken at all.
bool check_file(const std::string& path, const char* setting, const std::string& format,
                RowMistakes& mistakes) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    mistakes.add(setting, fmt::format("no file '{}'", path));
    return false;
  }
  if (std::filesystem::is_directory(status)) {
    mistakes.add(setting, fmt::format("'{}' is a folder; name the files in it", path));
    return false;
  }
  const std::string ending = std::filesystem::path(path).extension().string();
  const bool known = ending == ".jsonl" || ending == ".ndjson" || ending == ".json";
  if (format == "auto" && !known) {
    mistakes.add(setting,
                 fmt::format("'{}': cannot tell the format from the ending '{}'; .jsonl, .ndjson and .json "
                             "are read as JSON (or set data.format = \"jsonl\")",
                             path, ending));
    return false;
  }
  return true;
}

std::vector<Problem> read_files(const std::vector<std::string>& paths, const char* setting,
                                const DataConfig& config, const std::string& response_key,
                                RowMistakes& mistakes) {
  ColumnReader columns(config, response_key, mistakes);
  for (const std::string& path : paths) {
    if (!check_file(path, setting, config.format, mistakes)) continue;
    const int64_t mistakes_before = mistakes.count();
    int64_t rows = 0;
    try {
      rows = for_each_row(path, mistakes,
                          [&](const Json& row, int64_t line) { columns.read_row(row, path, line); });
    } catch (const Error& error) {
      mistakes.add(setting, error.message());
      continue;
    }
    if (rows == 0 && mistakes.count() == mistakes_before)
      mistakes.add(path,
                   std::filesystem::file_size(path) == 0 ? "the file is empty" : "no problems in this file");
  }
  return columns.take_problems();
}

// Moves val_fraction of `train` to the result: those whose hash of index and seed is smallest.
std::vector<Problem> split_val(std::vector<Problem>& train, double fraction, uint64_t seed) {
  const auto total = static_cast<int64_t>(train.size());
  if (fraction <= 0 || total < 2) return {};
  const auto wanted = std::llround(fraction * static_cast<double>(total));
  const auto num_val = static_cast<size_t>(std::clamp<int64_t>(wanted, 1, total - 1));
  std::vector<std::pair<uint64_t, size_t>> keyed;
  for (size_t i = 0; i < train.size(); ++i)
    keyed.push_back({random_bits(seed, kSplitStream, static_cast<uint64_t>(train[i].index)), i});
  std::nth_element(keyed.begin(), keyed.begin() + static_cast<ptrdiff_t>(num_val), keyed.end());
  std::vector<bool> is_val(train.size());
  for (size_t i = 0; i < num_val; ++i) is_val[keyed[i].second] = true;
  std::vector<Problem> rest, val;
  for (size_t i = 0; i < train.size(); ++i) (is_val[i] ? val : rest).push_back(std::move(train[i]));
  train = std::move(rest);
  return val;
}

void keep_first(std::vector<Problem>& problems, int64_t limit) {
  if (limit >= 0 && static_cast<size_t>(limit) < problems.size()) problems.resize(static_cast<size_t>(limit));
}

ProblemSet load_files(const DataConfig& config, const std::string& response_key, uint64_t seed) {
  RowMistakes mistakes;
  if (config.train_files.empty())
    mistakes.add("data.train_files", "no files are named, and data.task = \"files\" needs one");
  if (config.prompt_key.empty()) mistakes.add("data.prompt_key", "the name of the prompt's column is empty");
  if (config.prompt_template.find(kPlaceholder) == std::string::npos)
    mistakes.add("data.prompt_template", fmt::format("the text has no {}", kPlaceholder));
  if (!(config.val_fraction >= 0 && config.val_fraction < 1))
    mistakes.add("data.val_fraction", fmt::format("{} is not in [0, 1)", config.val_fraction));
  if (config.format != "auto" && config.format != "jsonl")
    mistakes.add("data.format", fmt::format("'{}' is not auto or jsonl", config.format));
  ProblemSet set;
  set.train = read_files(config.train_files, "data.train_files", config, response_key, mistakes);
  set.val = read_files(config.val_files, "data.val_files", config, response_key, mistakes);
  mistakes.throw_if_any(fmt::format("the data cannot be used ({} mistakes):", mistakes.count()));
  if (config.val_files.empty()) set.val = split_val(set.train, config.val_fraction, seed);
  return set;
}

}  // namespace

std::string ground_truth_of(const std::string& answer) {
  const std::string mark = "####";
  const size_t at = answer.rfind(mark);
  std::string truth = at == std::string::npos ? answer : answer.substr(at + mark.size());
  const char* const blanks = " \t\r\n";
  truth.erase(0, std::min(truth.find_first_not_of(blanks), truth.size()));
  truth.erase(truth.find_last_not_of(blanks) + 1);
  return truth;
}

ProblemSet load_problems(const DataConfig& config, const std::string& sft_response_key, uint64_t seed) {
  ProblemSet set;
  if (config.task == "arithmetic")
    set = make_arithmetic(config.arithmetic, seed);
  else if (config.task == "files")
    set = load_files(config, sft_response_key, seed);
  else
    fail(ErrorCode::invalid_config, "data.task: '{}' is not files or arithmetic", config.task);
  keep_first(set.train, config.train_max_samples);
  keep_first(set.val, config.val_max_samples);
  return set;
}

int64_t check_prompt_lengths(std::vector<Problem>& problems, const Tokenizer& tokenizer,
                             const DataConfig& config) {
  RowMistakes mistakes;
  const auto overlong = [&](const Problem& problem) {
    const auto length = static_cast<int64_t>(tokenizer.encode(problem.prompt).size());
    if (length > config.max_prompt_length)
      mistakes.add(problem.where, fmt::format("the prompt has {} tokens, data.max_prompt_length is {}",
                                              length, config.max_prompt_length));
    return length > config.max_prompt_length;
  };
  const auto first_dropped = std::remove_if(problems.begin(), problems.end(), overlong);
  problems.erase(first_dropped, problems.end());
  if (mistakes.count() > 0 && (!config.filter_overlong_prompts || problems.empty()))
    mistakes.throw_if_any(
        fmt::format("{} prompts are too long; raise data.max_prompt_length{}:", mistakes.count(),
                    config.filter_overlong_prompts ? " (data.filter_overlong_prompts would leave none)"
                                                   : " or set data.filter_overlong_prompts = true"));
  return mistakes.count();
}

}  // namespace trireme::data
