// The words of a shell script: quotes, backslashes, and what stands behind a $.
#pragma once

#include <string>
#include <vector>

#include "launcher/verl/shell_variables.h"

namespace trireme::verl {

struct ShellWord {
  std::string text;
  int line = 0;
  std::vector<std::string> missing;   // as in ShellValue
  std::vector<std::string> doubtful;  // variables in it that if, for or case may set otherwise
};

/// Reads `text` from its beginning; both must outlive it. Throws invalid_config, with the line, where a
/// quote, brace or parenthesis is not closed.
class ShellWordReader {
 public:
  ShellWordReader(const std::string& text, ShellVariables& variables) : text_(text), variables_(variables) {}

  /// All words of the text, which begins in `line` of the script; `quoted`: it stands between double quotes,
  /// and is one word.
  std::vector<ShellWord> words(int line, bool quoted);

 protected:
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  char take();
  bool at_end() const { return at_ >= text_.size(); }
  /// A blank, a newline, or a sign that ends a command.
  bool ends_word() const;
  void comment();
  void word();
  void begin_word();
  void end_word();
  /// One character of a word, or what a quote, a backslash or a $ makes of it.
  void piece();
  /// From an opening bracket to its closing one, quotes respected; what stands between them.
  std::string enclosed(char open, char close);

  const std::string& text_;
  ShellVariables& variables_;
  size_t at_ = 0;
  int line_ = 1;
  bool tentative_ = false;      // inside of if, for or case
  bool in_assignment_ = false;  // values are not cut at their blanks
  ShellWord word_;
  std::vector<ShellWord> words_;

 private:
  void add(char c);
  void single_quotes();
  void in_double_quotes();
  void backquotes();
  bool only_items_in_quotes() const;
  [[noreturn]] void not_closed(int line, const char* what) const;

  void expansion(bool quoted);
  void plain(const std::string& name, bool quoted);
  void parameter(const std::string& inside, bool quoted);
  void with_operator(const std::string& inside, const std::string& name, const std::string& rest,
                     bool quoted);
  void nested(const std::string& text, bool quoted);
  std::string joined(const std::string& text);
  void note_doubt(const std::string& name);
  void lack(const std::vector<std::string>& what);
  void split();
  void insert(const std::string& value, bool quoted);
  void list(const std::vector<ShellValue>& items, bool quoted);

  bool in_word_ = false;  // something stood there, be it empty quotes
};

}  // namespace trireme::verl
