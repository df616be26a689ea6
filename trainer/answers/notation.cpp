#include "trainer/answers/notation.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "trainer/answers/notation_tables.h"

namespace trireme::answers {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_product_of_letters(std::string_view word) {
  if (kWords.count(word)) return false;
  if (word.size() <= 2) return true;
  return word.size() <= 4 &&
         std::ranges::all_of(word,
                             [](char c) {
                               return std::string_view("abcdknmpqrstuvwxyz").find(c) !=
                                      std::string_view::npos;
                             }) &&
         std::ranges::count(word, 'a') <= 1 && word.find("rs") == std::string_view::npos;
}

std::string plain_signs(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    if (text.starts_with("\\\\")) {  // a matrix's new row
      const bool row = text.size() < 3 || !is_letter(text[2]) ||
                       text.find("\\begin") != std::string_view::npos ||
                       out.find("\\begin") != std::string::npos;
      out += row ? "\\\\" : "\\";  // "\\frac" of a text that was escaped twice
      text.remove_prefix(2);
      continue;
    }
    const auto* found =
        std::ranges::find_if(kSigns, [&](const auto& sign) { return text.starts_with(sign.first); });
    if (found == std::end(kSigns)) {
      out.push_back(text[0]);
      text.remove_prefix(1);
    } else {
      out += found->second;
      text.remove_prefix(found->first.size());
    }
  }
  return out;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view answer) : text_(plain_signs(answer)) {}

  std::vector<Token> run() {
    while (at_ < text_.size()) next();
    return std::move(tokens_);
  }

 private:
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  Token& add(TokenKind kind, std::string text) {
    tokens_.push_back({.kind = kind, .text = std::move(text), .after_space = std::exchange(space_, false)});
    if (kind == TokenKind::mark) count_depth(tokens_.back().text);
    return tokens_.back();
  }

  void count_depth(const std::string& mark) {
    if (mark == "{" && depth_ == bare_depth_ && bare_arguments_ > 0) --bare_arguments_;
    if (mark == "(" || mark == "[" || mark == "\\{" || mark == "{") ++depth_;
    if (mark == ")" || mark == "]" || mark == "\\}" || mark == "}") --depth_;
  }

  void next() {
    const char c = peek();
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '~') {
      space_ = true;
      ++at_;
    } else if (is_digit(c) || (c == '.' && is_digit(peek(1)))) {
      number();
    } else if (is_letter(c)) {
      word();
    } else if (c == '\\') {
      command();
    } else {
      ++at_;
      if (static_cast<unsigned char>(c) >= 0x80) {
        std::string letter(1, c);
        while ((static_cast<unsigned char>(peek()) & 0xc0) == 0x80) letter.push_back(text_[at_++]);
        add(TokenKind::text, letter);
      } else if (c == '"' || c == '`' || c == '\'' || c == '?') {
        if (c == '\'' && !tokens_.empty() && tokens_.back().kind == TokenKind::symbol)
          tokens_.back().text += c;
      } else if (c == '_' && !tokens_.empty() && tokens_.back().kind == TokenKind::symbol) {
        subscript();
      } else {
        add(TokenKind::mark, std::string(1, c));
      }
    }
  }

  // Commas between groups of three digits belong to the number, and so do spaces, unless that is a list's.
  bool takes_group(char separator) const {
    if (peek() != separator) return false;
    if (separator == ',' && depth_ > 0 && !is_braced_number()) return false;
    for (size_t i = 1; i <= 3; ++i)
      if (!is_digit(peek(i))) return false;
    return !is_digit(peek(4));
  }

  // Within \frac{1,000}{3} a comma separates nothing.
  bool is_braced_number() const {
    size_t begin = at_;
    while (begin > 0 && (is_digit(text_[begin - 1]) || text_[begin - 1] == ',')) --begin;
    size_t end = at_;
    while (end < text_.size() && (is_digit(text_[end]) || text_[end] == ',')) ++end;
    return begin > 1 && text_[begin - 1] == '{' && end < text_.size() && text_[end] == '}' &&
           text_[begin - 2] != '\\' && (is_letter(text_[begin - 2]) || text_[begin - 2] == '}');
  }

  void number() {
    std::string digits, fraction;
    bool grouped = false;
    if (bare_arguments_ > 0 && depth_ == bare_depth_ && is_digit(peek())) {  // \frac12
      --bare_arguments_;
      digits.push_back(text_[at_++]);
      Token& token = add(TokenKind::number, digits);
      token.value = Rational(Integer::from_digits(digits));
      return;
    }
    while (is_digit(peek())) digits.push_back(text_[at_++]);
    if (!digits.empty() && digits.size() <= 3 && digits[0] != '0')
      for (const char separator : {',', ' '})
        while (takes_group(separator)) {
          digits += text_.substr(at_ + 1, 3);
          at_ += 4;
          grouped = true;
        }
    int decimals = -1;
    if (peek() == '.' && (is_digit(peek(1)) || (!digits.empty() && !is_letter(peek(1)) && peek(1) != '.'))) {
      ++at_;
      while (is_digit(peek())) fraction.push_back(text_[at_++]);
      decimals = fraction.empty() ? -1 : static_cast<int>(fraction.size());
    }
    Rational value(Integer::from_digits(digits + fraction),
                   power(Rational(10), static_cast<int64_t>(fraction.size())).top());
    // 1.5e3, but not the 2e of Euler's number
    const bool has_sign = peek(1) == '-' || peek(1) == '+';
    if (!grouped && (peek() == 'e' || peek() == 'E') && is_digit(peek(has_sign ? 2 : 1))) {
      const bool negative = peek(1) == '-';
      at_ += has_sign ? 2 : 1;
      std::string exponent;
      while (is_digit(peek())) exponent.push_back(text_[at_++]);
      if (exponent.size() > 4) throw NotExact("an exponent that is too large");
      value = value * power(Rational(10), (negative ? -1 : 1) * std::stoll(exponent));
    }
    Token& token = add(TokenKind::number, digits + (fraction.empty() ? "" : "." + fraction));
    token.value = value;
    token.decimals = decimals;
  }

  void word() {
    size_t end = at_;
    while (end < text_.size() && is_letter(text_[end])) ++end;
    const std::string word = text_.substr(at_, end - at_);
    const std::string small = lower(word);
    at_ = end;
    if (word == "x" && peek() == ' ' && !tokens_.empty() && tokens_.back().kind == TokenKind::number &&
        text_.compare(at_, 4, " 10^") == 0) {
      add(TokenKind::mark, "*");
    } else if (const auto function = kFunctions.find(small); function != kFunctions.end() && word == small) {
      add(TokenKind::function, std::string(function->second));
    } else if (const auto symbol = kSymbols.find(small); symbol != kSymbols.end()) {
      add(TokenKind::symbol, std::string(symbol->second));
    } else if (kGreek.count(word) && word.size() > 2) {
      add(TokenKind::symbol, word);
    } else if (word == "U" && !tokens_.empty() && (tokens_.back().is(")") || tokens_.back().is("]"))) {
      add(TokenKind::mark, "cup");
    } else if (word.size() == 1 || is_product_of_letters(word)) {
      for (const char c : word) add(TokenKind::symbol, std::string(1, c));
    } else {
      add(TokenKind::text, small);
    }
  }

  // x_1, a_{12}, v_{max}: one symbol.
  void subscript() {
    std::string name;
    if (peek() == '{') {
      const size_t end = text_.find('}', at_);
      if (end == std::string::npos) return;
      for (const char c : text_.substr(at_ + 1, end - at_ - 1))
        if (c != ' ' && c != '{' && c != '\\') name.push_back(c);
      at_ = end + 1;
    } else if (at_ < text_.size() && peek() != ' ') {
      name.push_back(text_[at_++]);
    }
    tokens_.back().text += "_" + name;
  }

  void command() {
    if (at_ + 1 >= text_.size()) {
      ++at_;
      return;
    }
    if (!is_letter(peek(1))) {
      const char c = peek(1);
      at_ += 2;
      if (c == '{' || c == '}' || c == '\\')
        add(TokenKind::mark, std::string("\\") + c);
      else if (c == '%' || c == '|' || c == '&' || c == '#')
        add(TokenKind::mark, std::string(1, c));
      else
        space_ = space_ || c != '!';
      return;
    }
    size_t end = at_ + 1;
    while (end < text_.size() && is_letter(text_[end])) ++end;
    const std::string name = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end;
    if (kTextCommands.count(name)) return wrapped(name);
    if (const auto function = kFunctions.find(name); function != kFunctions.end()) {
      add(TokenKind::function, std::string(function->second));
      if (function->second == "frac" || function->second == "binom") {
        bare_arguments_ = 2;
        bare_depth_ = depth_;
      }
    } else if (const auto symbol = kSymbols.find(name); symbol != kSymbols.end()) {
      add(TokenKind::symbol, std::string(symbol->second));
    } else if (const auto sign = kCommands.find(name); sign == kCommands.end()) {
      add(kGreek.count(name) ? TokenKind::symbol : TokenKind::text, name);
    } else if (sign->second == " ") {
      space_ = true;
    } else if (sign->second.ends_with('(') && sign->second.size() > 1) {
      add(TokenKind::function, std::string(sign->second.substr(0, sign->second.size() - 1)));
      add(TokenKind::mark, "(");
    } else if (!sign->second.empty()) {
      add(TokenKind::mark, std::string(sign->second));
      if (sign->second == "begin" || sign->second == "end") skip_environment();
    }
  }

  // The name stays, for the parser: begin pmatrix. An array's columns do not.
  void skip_environment() {
    if (peek() != '{') return;
    const size_t end = text_.find('}', at_);
    if (end == std::string::npos) return;
    tokens_.back().text += " " + text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    if (tokens_.back().text == "begin array" && peek() == '{') {
      const size_t columns = text_.find('}', at_);
      at_ = columns == std::string::npos ? text_.size() : columns + 1;
    }
  }

  // \text{...}: what looks like mathematics is read as such, the rest is words.
  void wrapped(const std::string& name) {
    while (peek() == ' ') ++at_;
    if (peek() != '{') return;
    size_t end = at_ + 1;
    for (int open = 1; end < text_.size() && open > 0; ++end)
      if (text_[end] == '{')
        ++open;
      else if (text_[end] == '}')
        --open;
    std::string inside = text_.substr(at_ + 1, end - at_ - 2);
    at_ = end;
    const bool words =
        std::ranges::all_of(inside, [](char c) { return is_letter(c) || c == ' ' || c == '.'; });
    std::erase(inside, '.');
    const size_t first = inside.find_first_not_of(' ');
    if (first == std::string::npos) {
      space_ = true;
      return;
    }
    const std::string trimmed = inside.substr(first, inside.find_last_not_of(' ') - first + 1);
    if (name == "mathbb") {
      add(TokenKind::symbol, "bb" + trimmed);
    } else if (words &&
               (trimmed.size() > 1 || (!tokens_.empty() && tokens_.back().kind == TokenKind::number))) {
      if (const auto function = kFunctions.find(trimmed); function != kFunctions.end() && name != "text") {
        add(TokenKind::function, std::string(function->second));
        return;
      }
      for (size_t begin = 0; begin < trimmed.size();) {
        const size_t stop = std::min(trimmed.find(' ', begin), trimmed.size());
        if (stop > begin) add(TokenKind::text, lower(trimmed.substr(begin, stop - begin)));
        begin = stop + 1;
      }
    } else {
      // Read in place.
      text_.insert(at_, inside + (name.starts_with("text") ? " " : ""));
    }
  }

  std::string text_;
  size_t at_ = 0;
  int depth_ = 0;
  int bare_arguments_ = 0,
      bare_depth_ = 0;  // of a \frac: how many are yet to come, each a digit or in braces
  bool space_ = false;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokens_of(std::string_view answer) {
  return Lexer(answer).run();
}

}  // namespace trireme::answers
