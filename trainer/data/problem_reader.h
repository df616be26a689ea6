// Rows to problems: which columns are read, what they may hold, and the text that the model is asked.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainer/chat/chat_template.h"
#include "trainer/data/data_config.h"
#include "trainer/data/problem.h"
#include "trainer/data/rows.h"

namespace trireme::data {

/// Everything it is given is borrowed.
class ProblemReader {
 public:
  /// `response_key`: the column that SFT learns, "" where nothing is learned. `chat_template`: null where the
  /// model has none.
  ProblemReader(const DataConfig& config, const std::string& response_key,
                const chat::ChatTemplate* chat_template, RowMistakes& mistakes);

  /// All that is ever looked at, for formats that can leave out the rest.
  const std::vector<std::string>& columns() const { return columns_; }

  /// For a file that knows its columns before its rows: adds a mistake for each that must be there and is
  /// not. True if there is none.
  bool check_columns(const std::vector<std::string>& names, const std::string& path);

  /// `path` names the data source where the row does not.
  void read_row(const Row& row, const std::string& path, const std::string& where);

  std::vector<Problem> take_problems() { return std::move(problems_); }

 private:
  std::string missing(const std::string& key, const char* setting,
                      const std::vector<std::string>& names) const;
  const Row* required(const Row& row, const std::string& key, const char* setting);
  std::nullopt_t wrong(const std::string& key, const std::string& expected, const Row& value);
  std::optional<std::string> text_of(const Row& value, const std::string& key);
  std::optional<std::string> answer_of(const Row& row);
  std::optional<std::string> response_of(const Row& row);
  std::optional<std::string> prompt_of(const Row& row);
  std::optional<Row> messages_of(const Row& value, const std::string& key);
  std::optional<std::string> rendered(Row messages, const std::string& key);
  std::string in_prompt_template(const std::string& prompt) const;

  const DataConfig& config_;
  const std::string response_key_;
  const chat::ChatTemplate* const chat_template_;
  RowMistakes& mistakes_;
  Row template_variables_;
  std::vector<std::string> columns_;
  bool told_of_template_ = false;
  std::string where_;  // of the row being read
  std::vector<Problem> problems_;
};

/// "So 6 * 7 = 42\n#### 42" -> "42"; a text without "####" is returned whole. Blanks around it go.
std::string ground_truth_of(const std::string& answer);

}  // namespace trireme::data
