#include "trainer/data/problem_set.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "runtime/base/counter_random.h"
#include "trainer/data/arithmetic.h"
#include "trainer/data/json_rows.h"
#include "trainer/data/parquet_rows.h"
#include "trainer/data/problem_reader.h"

namespace trireme::data {
namespace {

constexpr uint64_t kSplitStream = 0x73706c6974;  // "split"
constexpr const char* kPlaceholder = "{prompt}";

// "jsonl", "parquet", or "" if the file cannot be taken at all.
std::string format_of(const std::string& path, const char* setting, const std::string& format,
                      RowMistakes& mistakes) {
  const auto refuse = [&](std::string what) {
    mistakes.add(setting, std::move(what));
    return std::string();
  };
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) return refuse(fmt::format("no file '{}'", path));
  if (std::filesystem::is_directory(status))
    return refuse(fmt::format("'{}' is a folder; name the files in it", path));
  if (format != "auto") return format;
  const std::string ending = std::filesystem::path(path).extension().string();
  if (ending == ".parquet") return "parquet";
  if (ending == ".jsonl" || ending == ".ndjson" || ending == ".json") return "jsonl";
  return refuse(
      fmt::format("'{}': cannot tell the format from the ending '{}'; .jsonl, .ndjson and .json are read "
                  "as JSON, .parquet as Parquet (or set data.format)",
                  path, ending));
}

// Returns the number of rows, of those too that are mistaken in their columns.
int64_t read_file(const std::string& path, const std::string& format, ProblemReader& problems,
                  RowMistakes& mistakes) {
  const RowVisitor read = [&](const Row& row, const std::string& where) {
    problems.read_row(row, path, where);
  };
  if (format != "parquet") return for_each_json_row(path, mistakes, read);
  ParquetFile file(path);
  if (problems.check_columns(file.columns(), path)) file.for_each_row(problems.columns(), mistakes, read);
  return file.num_rows();
}

std::vector<Problem> read_files(const std::vector<std::string>& paths, const char* setting,
                                const DataConfig& config, const LearnedColumns& learned,
                                const chat::ChatTemplate* chat_template, RowMistakes& mistakes) {
  ProblemReader problems(config, learned, chat_template, mistakes);
  for (const std::string& path : paths) {
    const std::string format = format_of(path, setting, config.format, mistakes);
    if (format.empty()) continue;
    const int64_t mistakes_before = mistakes.count();
    std::error_code no_size;  // of a pipe
    const bool is_empty = std::filesystem::file_size(path, no_size) == 0 && !no_size;
    int64_t rows = 0;
    try {
      if (!is_empty) rows = read_file(path, format, problems, mistakes);
    } catch (const Error& error) {
      mistakes.add(setting, error.message());
      continue;
    }
    if (rows == 0 && mistakes.count() == mistakes_before)
      mistakes.add(path, is_empty ? "the file is empty" : "no problems in this file");
  }
  return problems.take_problems();
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

void check_settings(const DataConfig& config, RowMistakes& mistakes) {
  const auto one_of = [&](const char* key, const std::string& value,
                          const std::vector<std::string>& choices) {
    if (std::find(choices.begin(), choices.end(), value) == choices.end())
      mistakes.add(key, fmt::format("'{}' is not one of {}", value, fmt::join(choices, ", ")));
  };
  if (config.train_files.empty())
    mistakes.add("data.train_files", "no files are named, and data.task = \"files\" needs one");
  if (config.prompt_key.empty()) mistakes.add("data.prompt_key", "the name of the prompt's column is empty");
  if (config.prompt_template.find(kPlaceholder) == std::string::npos)
    mistakes.add("data.prompt_template", fmt::format("the text has no {}", kPlaceholder));
  if (!(config.val_fraction >= 0 && config.val_fraction < 1))
    mistakes.add("data.val_fraction", fmt::format("{} is not in [0, 1)", config.val_fraction));
  one_of("data.format", config.format, {"auto", "jsonl", "parquet"});
  one_of("data.apply_chat_template", config.apply_chat_template, {"auto", "always", "never"});
  if (!Row::parse(config.chat_template_kwargs, nullptr, /*allow_exceptions=*/false).is_object())
    mistakes.add("data.chat_template_kwargs",
                 fmt::format("'{}' is not a JSON object such as {{\"enable_thinking\": false}}",
                             config.chat_template_kwargs));
  one_of("data.truncation", config.truncation, {"error", "left", "right", "middle"});
}

ProblemSet load_files(const DataConfig& config, const LearnedColumns& learned, uint64_t seed,
                      const chat::ChatTemplate* chat_template) {
  RowMistakes mistakes;
  check_settings(config, mistakes);
  mistakes.throw_if_any("the data cannot be read:");
  ProblemSet set;
  set.train = read_files(config.train_files, "data.train_files", config, learned, chat_template, mistakes);
  set.val = read_files(config.val_files, "data.val_files", config, learned, chat_template, mistakes);
  mistakes.throw_if_any(fmt::format("the data cannot be used ({} mistakes):", mistakes.count()));
  if (config.val_files.empty()) set.val = split_val(set.train, config.val_fraction, seed);
  return set;
}

}  // namespace

ProblemSet load_problems(const DataConfig& config, const LearnedColumns& learned, uint64_t seed,
                         const chat::ChatTemplate* chat_template) {
  ProblemSet set;
  if (config.task == "arithmetic")
    set = make_arithmetic(config.arithmetic, seed);
  else if (config.task == "files")
    set = load_files(config, learned, seed, chat_template);
  else
    fail(ErrorCode::invalid_config, "data.task: '{}' is not files or arithmetic", config.task);
  keep_first(set.train, config.train_max_samples);
  keep_first(set.val, config.val_max_samples);
  return set;
}

}  // namespace trireme::data
