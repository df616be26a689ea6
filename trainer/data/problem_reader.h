// Rows to problems: which columns are read, what they may hold, and the text that the model is asked.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainer/chat/chat_template.h"
#include "trainer/data/data_config.h"
#include "trainer/data/learned_columns.h"
#include "trainer/data/problem.h"
#include "trainer/data/rows.h"

namespace trireme::data {

/// Everything it is given is borrowed.
class ProblemReader {
 public:
  /// `chat_template`: null where the model has none. learned.pairs: rows hold a chosen and a rejected answer
  /// and no ground truth; the prompt is in its own column, or what both begin with.
  ProblemReader(const DataConfig& config, const LearnedColumns& learned,
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
  bool learns_conversations() const { return !learned_.messages.empty(); }
  bool read_problem(const Row& row, Problem& problem);
  bool read_conversation(const Row& row, Problem& problem);
  bool add_conversation(const Row& row, const Row& asked, const Row* said, Problem& problem);
  bool set_tools_and_variables(const Row& row, Row& conversation);
  bool has_template(const std::string& key);
  Row with_prompt_template(Row messages) const;
  std::optional<Row> messages_of(const Row& value, const std::string& key);
  std::optional<std::string> rendered(Row messages, const std::string& key);
  std::optional<std::string> rendered(chat::Conversation conversation, const std::string& key);
  std::string in_prompt_template(const std::string& prompt) const;

  // preference_rows.cpp
  bool read_pair(const Row& row, Problem& problem);
  bool read_texts(const Row* prompt, const Row& chosen, const Row& rejected, Problem& problem);
  bool read_chats(Row prompt, Row chosen, Row rejected, bool is_apart, Problem& problem);
  std::optional<Row> answers_of(const Row& value, const std::string& key);
  bool has_no_prompt();

  const DataConfig& config_;
  const LearnedColumns learned_;
  const std::string response_key_;
  const chat::ChatTemplate* const chat_template_;
  RowMistakes& mistakes_;
  Row template_variables_;
  std::vector<std::string> columns_;
  bool told_of_template_ = false;
  std::string where_;  // of the row being read
  std::string messages_;  // of its prompt, where they are kept
  std::vector<Problem> problems_;
};

/// "So 6 * 7 = 42\n#### 42" -> "42"; a text without "####" is returned whole. Blanks around it go.
std::string ground_truth_of(const std::string& answer);

}  // namespace trireme::data
