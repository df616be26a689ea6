#include "launcher/verl/shell_script.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "runtime/base/error.h"

namespace trireme::verl {
namespace {

bool is_name_start(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) || c == '_';
}
bool is_name(const std::string& text) {
  return !text.empty() && is_name_start(text[0]) && std::all_of(text.begin(), text.end(), [](char c) {
    return is_name_start(c) || std::isdigit(static_cast<unsigned char>(c));
  });
}

const std::set<std::string> kOpening{"if", "for", "while", "until", "case", "select"};
const std::set<std::string> kClosing{"fi", "done", "esac"};
const std::set<std::string> kBetween{"then", "else", "elif", "do", "{", "}", "!", "time", "function"};
const std::set<std::string> kDeclaring{"export", "local", "declare", "readonly", "typeset"};

class Reader : public ShellWordReader {
 public:
  using ShellWordReader::ShellWordReader;

  std::vector<ShellCommand> commands() {
    while (!at_end()) command();
    return std::move(commands_);
  }

 private:
  // ---- Commands: words up to a newline, ; & or |.
  void command() {
    words_.clear();
    bool declaring = false;
    while (at_ < text_.size()) {
      const char c = peek();
      if (c == '\n' || c == ';' || c == '&' || c == '|' || c == '(' || c == ')') {
        const bool both = c == '&' && peek(1) == '>';
        take();
        if (both) {
          redirection();
          continue;
        }
        break;
      }
      if (c == ' ' || c == '\t' || c == '\r') {
        take();
      } else if (c == '\\' && continues_line()) {
        while (take() != '\n') {
        }
      } else if (c == '#') {
        comment();
      } else if (c == '<' || c == '>') {
        redirection();
      } else if ((words_.empty() || declaring) && assignment()) {
        continue;
      } else {
        const size_t before = words_.size();
        word();
        if (before == 0 && words_.size() == 1) declaring = keyword();
      }
    }
    if (!words_.empty() && !declaring) commands_.push_back({std::move(words_)});
    words_.clear();
    for (const std::string& end : here_ends_) skip_here_document(end);
    here_ends_.clear();
  }

  // A backslash before the end of a line, also where blanks were pasted between them.
  bool continues_line() const {
    size_t next = at_ + 1;
    while (next < text_.size() && (text_[next] == ' ' || text_[next] == '\t' || text_[next] == '\r')) ++next;
    return next < text_.size() && text_[next] == '\n';
  }

  /// Of a command's first word; true where assignments follow. Reserved words fall away.
  bool keyword() {
    const std::string first = words_[0].text;
    if (kDeclaring.count(first)) return true;
    if (kOpening.count(first)) ++depth_;
    if (kClosing.count(first)) depth_ = std::max(0, depth_ - 1);
    tentative_ = depth_ > 0;
    if (kOpening.count(first) || kClosing.count(first) || kBetween.count(first) || first == "$")
      words_.clear();
    return false;
  }

  bool assignment() {
    size_t end = at_;
    while (end < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[end])) || text_[end] == '_'))
      ++end;
    const std::string name = text_.substr(at_, end - at_);
    const bool append = text_.compare(end, 2, "+=") == 0;
    if (!is_name(name) || (!append && text_.compare(end, 1, "=") != 0)) return false;
    at_ = end + (append ? 2 : 1);
    if (peek() == '(') {
      const int line = line_;
      const std::string inside = enclosed('(', ')');
      std::vector<ShellValue> items;
      for (ShellWord& item : ShellWordReader(inside, variables_).words(line, false))
        items.push_back({std::move(item.text), std::move(item.missing)});
      append ? variables_.append_items(name, items) : variables_.assign(name, items, tentative_);
      return true;
    }
    in_assignment_ = true;
    begin_word();
    while (!ends_word()) piece();
    in_assignment_ = false;
    ShellValue value{word_.text, word_.missing};
    append ? variables_.append(name, std::move(value))
           : variables_.assign(name, {std::move(value)}, tentative_);
    begin_word();
    return true;
  }

  void redirection() {
    if (!words_.empty() && in_digits(words_.back().text) && at_ > 0 && text_[at_ - 1] != ' ')
      words_.pop_back();  // the 2 of 2>file
    const bool here = peek() == '<' && peek(1) == '<' && peek(2) != '<';
    while (peek() == '<' || peek() == '>' || peek() == '&' || peek() == '|') take();
    if (here && peek() == '-') take();
    while (peek() == ' ' || peek() == '\t') take();
    const size_t before = words_.size();
    if (!ends_word()) word();
    if (here && words_.size() > before) here_ends_.push_back(words_.back().text);
    words_.resize(std::min(before, words_.size()));
  }
  static bool in_digits(const std::string& text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  }

  void skip_here_document(const std::string& end) {
    while (at_ < text_.size()) {
      const size_t from = at_;
      while (at_ < text_.size() && peek() != '\n') take();
      std::string line = text_.substr(from, at_ - from);
      line.erase(0, line.find_first_not_of('\t') == std::string::npos ? 0 : line.find_first_not_of('\t'));
      if (at_ < text_.size()) take();
      if (line == end) return;
    }
  }

  int depth_ = 0;  // of if, for and case
  std::vector<std::string> here_ends_;
  std::vector<ShellCommand> commands_;
};

}  // namespace

std::vector<ShellCommand> read_shell(const std::string& text, const Environment& environment) {
  ShellVariables variables(environment);
  return Reader(text, variables).commands();
}

}  // namespace trireme::verl
