#include "launcher/verl/shell_words.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include "runtime/base/error.h"

namespace trireme::verl {
namespace {

bool is_name_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
}
bool is_space(char c) {
  return std::isspace(static_cast<unsigned char>(c)) != 0;
}

}  // namespace

std::vector<ShellWord> ShellWordReader::words(int line, bool quoted) {
  line_ = line;
  if (quoted) {
    begin_word();
    while (!at_end())
      if (peek() == '"')
        take();  // "${X:-"a b"}": quotes within quotes fall away
      else
        in_double_quotes();
    end_word();
  }
  while (!at_end()) {
    if (is_space(peek())) {
      take();
    } else if (peek() == '#') {
      comment();
    } else if (peek() == '\\' && peek(1) == '\n') {
      take();
      take();
    } else {
      begin_word();
      while (!at_end() && !is_space(peek())) piece();
      end_word();
    }
  }
  return std::move(words_);
}

char ShellWordReader::take() {
  if (peek() == '\n') ++line_;
  return text_[at_++];
}

bool ShellWordReader::ends_word() const {
  return at_end() || std::string(" \t\n\r;&|<>()").find(peek()) != std::string::npos;
}

void ShellWordReader::comment() {
  while (!at_end() && peek() != '\n') take();
}

void ShellWordReader::not_closed(int line, const char* what) const {
  fail(ErrorCode::invalid_config, "line {}: {} is not closed; was the end of the command cut off?", line,
       what);
}

void ShellWordReader::word() {
  begin_word();
  while (!ends_word()) piece();
  end_word();
}

void ShellWordReader::begin_word() {
  word_ = {};
  word_.line = line_;
  in_word_ = false;
}
/// Something stood there, be it empty quotes; an empty expansion without quotes is no word.
void ShellWordReader::end_word() {
  if (in_word_ || !word_.missing.empty()) words_.push_back(word_);
  word_ = {};
  word_.line = line_;
  in_word_ = false;
}
void ShellWordReader::add(char c) {
  word_.text += c;
  in_word_ = true;
}

void ShellWordReader::piece() {
  const char c = peek();
  if (c == '\'') {
    single_quotes();
  } else if (c == '"') {
    const int line = line_;
    take();
    // "$@" and "${items[@]}" of nothing are no word at all.
    in_word_ = in_word_ || !only_items_in_quotes();
    while (peek() != '"') {
      if (at_ >= text_.size()) not_closed(line, "the quote \"");
      in_double_quotes();
    }
    take();
  } else if (c == '\\') {
    take();
    if (at_ >= text_.size()) return;
    const char next = take();
    if (next != '\n') add(next);
  } else if (c == '$' && peek(1) == '\'') {
    take();
    single_quotes();
  } else if (c == '$') {
    expansion(/*quoted=*/false);
  } else if (c == '`') {
    backquotes();
  } else {
    add(take());
  }
}

void ShellWordReader::single_quotes() {
  const int line = line_;
  take();
  in_word_ = true;
  while (peek() != '\'') {
    if (at_ >= text_.size()) not_closed(line, "the quote '");
    add(take());
  }
  take();
}

bool ShellWordReader::only_items_in_quotes() const {
  if (text_.compare(at_, 3, "$@\"") == 0) return true;
  const size_t end = text_.find("}\"", at_);
  if (peek() != '$' || peek(1) != '{' || end == std::string::npos) return false;
  const std::string inside = text_.substr(at_ + 2, end - at_ - 2);
  return inside.find('"') == std::string::npos &&
         (inside[0] == '@' || inside.find("[@]") != std::string::npos);
}

void ShellWordReader::in_double_quotes() {
  const char c = peek();
  if (c == '\\' && std::string("\"\\$`\n").find(peek(1)) != std::string::npos && peek(1) != '\0') {
    take();
    if (const char next = take(); next != '\n') add(next);
  } else if (c == '$') {
    expansion(/*quoted=*/true);
  } else if (c == '`') {
    backquotes();
  } else {
    add(take());
  }
}

void ShellWordReader::backquotes() {
  const int line = line_;
  std::string inside(1, take());
  while (peek() != '`') {
    if (at_ >= text_.size()) not_closed(line, "the quote `");
    inside += take();
  }
  word_.missing.push_back(inside + take());
}

/// From an opening bracket to its closing one, quotes respected; what stands between them.
std::string ShellWordReader::enclosed(char open, char close) {
  const int line = line_;
  take();
  std::string inside;
  for (int depth = 1;;) {
    if (at_ >= text_.size()) not_closed(line, open == '{' ? "the brace {" : "the parenthesis (");
    const char c = take();
    if (c == '\\' && at_ < text_.size()) {
      inside += c;
      inside += take();
      continue;
    }
    if (c == '\'' || (c == '"' && open == '(')) {
      const size_t end = text_.find(c, at_);
      if (end != std::string::npos && (open == '(' || c != '\'')) {
        inside += c;
        while (at_ <= end) inside += take();
        continue;
      }
    }
    if (c == open) ++depth;
    if (c == close && --depth == 0) return inside;
    inside += c;
  }
}

void ShellWordReader::expansion(bool quoted) {
  take();
  const char c = peek();
  if (c == '(' && peek(1) == '(') {
    const std::string inside = enclosed('(', ')');  // "(...)"
    const std::string text = inside.substr(1, inside.size() - 2);
    if (const auto number = variables_.arithmetic(text))
      insert(std::to_string(*number), quoted);
    else
      word_.missing.push_back("$((" + text + "))");
  } else if (c == '(') {
    word_.missing.push_back("$(" + enclosed('(', ')') + ")");
  } else if (c == '{') {
    parameter(enclosed('{', '}'), quoted);
  } else if (is_name_char(c) && !std::isdigit(static_cast<unsigned char>(c))) {
    std::string name;
    while (is_name_char(peek())) name += take();
    plain(name, quoted);
  } else if (c == '@' || c == '*') {
    take();  // the script's arguments: there are none
  } else if (c == '#' || c == '?') {
    take();
    insert("0", quoted);
  } else if (std::isdigit(static_cast<unsigned char>(c))) {
    word_.missing.push_back(std::string("$") + take());
  } else {
    add('$');
  }
}

void ShellWordReader::plain(const std::string& name, bool quoted) {
  note_doubt(name);
  const auto value = variables_.value(name);
  value ? insert(*value, quoted) : lack(variables_.missing(name));
}

void ShellWordReader::lack(const std::vector<std::string>& what) {
  word_.missing.insert(word_.missing.end(), what.begin(), what.end());
}

void ShellWordReader::note_doubt(const std::string& name) {
  if (variables_.doubtful(name)) word_.doubtful.push_back(name);
}

/// ${...}
void ShellWordReader::parameter(const std::string& inside, bool quoted) {
  size_t end = 0;
  while (end < inside.size() && is_name_char(inside[end])) ++end;
  const std::string name = inside.substr(0, end), rest = inside.substr(end);
  if (name.empty()) {
    const bool arguments = !inside.empty() && (inside[0] == '@' || inside[0] == '*');
    return arguments ? void() : lack({"${" + inside + "}"});
  }
  if (rest.empty()) return plain(name, quoted);
  note_doubt(name);
  if (rest == "[@]" || rest == "[*]") return list(variables_.items(name), quoted);
  if (rest[0] != '[') return with_operator(inside, name, rest, quoted);
  const auto index = variables_.arithmetic(rest.substr(1, rest.size() - 2));
  const auto items = variables_.items(name);
  if (rest.back() != ']' || !index || *index < 0 || *index >= static_cast<int64_t>(items.size()))
    return lack({"${" + inside + "}"});
  list({items[static_cast<size_t>(*index)]}, quoted);
}

/// ${name-text} and the like: `rest` is what stands behind the name.
void ShellWordReader::with_operator(const std::string& inside, const std::string& name,
                                    const std::string& rest, bool quoted) {
  const bool colon = rest[0] == ':';
  const char sign = rest.size() > (colon ? 1u : 0u) ? rest[colon ? 1 : 0] : '\0';
  const std::string text = rest.substr(std::min<size_t>(rest.size(), colon ? 2 : 1));
  const auto value = variables_.value(name);
  if (variables_.is_set(name) && !value) return lack(variables_.missing(name));
  const bool there = value && !(colon && value->empty());
  if (sign == '-' || sign == '=') {
    if (there) return insert(*value, quoted);
    if (sign == '=') variables_.assign(name, {{joined(text), {}}}, tentative_);
    return nested(text, quoted);
  }
  if (sign == '+') return there ? nested(text, quoted) : void();
  if (there && sign == '?') return insert(*value, quoted);
  if (!value || colon || (sign != '#' && sign != '%'))
    return lack({value ? "${" + inside + "}" : "$" + name});
  const bool longest = !text.empty() && text[0] == sign;
  insert(strip_pattern(*value, joined(longest ? text.substr(1) : text), sign == '%', longest), quoted);
}

/// The text behind an operator, itself expanded.
void ShellWordReader::nested(const std::string& text, bool quoted) {
  const auto words = ShellWordReader(text, variables_).words(line_, quoted);
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) quoted || in_assignment_ ? add(' ') : split();
    word_.text += words[i].text;
    in_word_ = true;
    lack(words[i].missing);
    word_.doubtful.insert(word_.doubtful.end(), words[i].doubtful.begin(), words[i].doubtful.end());
  }
}
std::string ShellWordReader::joined(const std::string& text) {
  std::string all;
  for (const ShellWord& word : ShellWordReader(text, variables_).words(line_, false))
    all += (all.empty() ? "" : " ") + word.text;
  return all;
}

void ShellWordReader::split() {
  const auto doubtful = word_.doubtful;
  end_word();
  word_.doubtful = doubtful;
}

void ShellWordReader::insert(const std::string& value, bool quoted) {
  if (quoted || in_assignment_) {
    word_.text += value;
    in_word_ = in_word_ || !value.empty();
    return;
  }
  // A value without quotes is cut at its blanks.
  for (const char c : value) {
    if (c == ' ' || c == '\t' || c == '\n') {
      if (in_word_) split();
    } else {
      add(c);
    }
  }
}

void ShellWordReader::list(const std::vector<ShellValue>& items, bool quoted) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) split();
    insert(items[i].text, quoted);
    lack(items[i].missing);
    in_word_ = in_word_ || quoted;
  }
}

}  // namespace trireme::verl
