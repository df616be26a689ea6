#include "trainer/jinja/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "trainer/jinja/unicode_text.h"

namespace trireme::jinja {

namespace {

constexpr size_t kNone = std::string_view::npos;

// \r\n and \r to \n; one line end at the very end is dropped.
std::string normalize_lines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
    } else {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_name_begin(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

class Reader {
 public:
  explicit Reader(std::string source) : source_(std::move(source)) {}

  std::vector<Token> read() {
    while (at_ < source_.size()) read_root();
    add(Token::Kind::end, {});
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  bool next_is(std::string_view text) const { return rest().substr(0, text.size()) == text; }
  [[noreturn]] void fail(std::string message) const { throw SyntaxError{line_, std::move(message)}; }
  void add(Token::Kind kind, std::string text) { tokens_.push_back({kind, line_, std::move(text)}); }

  void advance(size_t bytes) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(at_ + bytes), '\n'));
    at_ += bytes;
    line_starts_ = at_ > 0 && source_[at_ - 1] == '\n';
  }

  void skip_space() { advance(rest().size() - strip_left(rest()).size()); }

  // What follows a tag's own end: "-" takes all white space, nothing takes one line end, "+" none.
  void end_tag(char sign) {
    if (sign == '-') {
      skip_space();
    } else if (sign != '+' && next_is("\n")) {
      advance(1);
    }
  }

  // The text before a tag at `end`, less what the tag's sign takes from it.
  std::string_view trim_data(std::string_view text, char sign, bool variable) const {
    if (sign == '-') return strip_right(text);
    if (sign == '+' || variable) return text;
    const size_t line = text.rfind('\n') + 1;  // 0 if there is none
    const bool starts = line > 0 || line_starts_;
    return starts && strip(text.substr(line)).empty() ? text.substr(0, line) : text;
  }

  void add_data(std::string_view text, size_t bytes) {
    if (!text.empty()) add(Token::Kind::data, std::string(text));
    advance(bytes);
  }

  void read_root() {
    const std::string_view text = rest();
    size_t begin = text.find('{');
    while (begin != kNone && begin + 1 < text.size() && text[begin + 1] != '{' && text[begin + 1] != '%' &&
           text[begin + 1] != '#')
      begin = text.find('{', begin + 1);
    if (begin == kNone || begin + 1 >= text.size()) return add_data(text, text.size());
    const char type = text[begin + 1];
    const char after = begin + 2 < text.size() ? text[begin + 2] : 0;
    const char sign = after == '-' || after == '+' ? after : 0;
    add_data(trim_data(text.substr(0, begin), sign, type == '{'), begin);
    if (type == '%' && read_raw()) return;
    const Token::Kind kind = type == '{' ? Token::Kind::variable_begin : Token::Kind::block_begin;
    if (type != '#') add(kind, {});
    advance(sign ? 3 : 2);
    if (type == '#') return read_comment();
    read_tag(type == '{');
  }

  void read_comment() {
    const size_t end = rest().find("#}");
    if (end == kNone) fail("a comment {# is not closed");
    const char sign = end > 0 ? rest()[end - 1] : 0;
    advance(end + 2);
    end_tag(sign);
  }

  // {% raw %} ... {% endraw %}, if it stands here.
  bool read_raw() {
    std::string_view tag = rest().substr(2);
    if (!tag.empty() && (tag[0] == '-' || tag[0] == '+')) tag.remove_prefix(1);
    tag = strip_left(tag);
    if (tag.substr(0, 3) != "raw") return false;
    tag = strip_left(tag.substr(3));
    const bool strips = tag.substr(0, 1) == "-";
    if (strips) tag.remove_prefix(1);
    if (tag.substr(0, 2) != "%}") return false;
    advance(rest().size() - tag.size() + 2);
    if (strips) skip_space();
    for (size_t begin = rest().find("{%"); begin != kNone; begin = rest().find("{%", begin + 1)) {
      std::string_view end = rest().substr(begin + 2);
      const char sign = !end.empty() && (end[0] == '-' || end[0] == '+') ? end[0] : 0;
      if (sign) end.remove_prefix(1);
      end = strip_left(end);
      if (end.substr(0, 6) != "endraw") continue;
      end = strip_left(end.substr(6));
      const char end_sign = !end.empty() && (end[0] == '-' || end[0] == '+') ? end[0] : 0;
      if (end_sign) end.remove_prefix(1);
      if (end.substr(0, 2) != "%}") continue;
      const size_t bytes = rest().size() - end.size() + 2;
      add_data(trim_data(rest().substr(0, begin), sign, false), bytes);
      end_tag(end_sign);
      return true;
    }
    fail("a block {% raw %} is not closed");
  }

  // The end of the tag, unless brackets are open: then it is signs.
  bool read_tag_end(bool variable) {
    if (!open_.empty()) return false;
    const std::string_view close = variable ? "}}" : "%}";
    const char sign = next_is("-") || (next_is("+") && !variable) ? rest()[0] : 0;
    if (rest().substr(sign ? 1 : 0, 2) != close) return false;
    add(variable ? Token::Kind::variable_end : Token::Kind::block_end, {});
    advance(sign ? 3 : 2);
    if (sign == '-') {
      skip_space();
    } else if (!variable) {
      end_tag(sign);
    }
    return true;
  }

  void read_tag(bool variable) {
    while (true) {
      if (at_ == source_.size()) fail(fmt::format("a tag {} is not closed", variable ? "{{" : "{%"));
      if (read_tag_end(variable)) return;
      const char c = rest()[0];
      const char32_t point = decode(rest(), 0).value;
      if (is_space(point)) {
        skip_space();
      } else if (is_digit(c)) {
        read_number();
      } else if (is_name_begin(c)) {
        size_t end = 1;
        while (end < rest().size() && (is_name_begin(rest()[end]) || is_digit(rest()[end]))) ++end;
        if (end < rest().size() && static_cast<unsigned char>(rest()[end]) >= 0x80 &&
            !is_space(decode(rest(), end).value))
          fail("names of other than ASCII letters are not supported");
        add(Token::Kind::name, std::string(rest().substr(0, end)));
        advance(end);
      } else if (c == '\'' || c == '"') {
        read_string(c);
      } else {
        read_sign();
      }
    }
  }

  void read_sign() {
    static constexpr std::string_view kSigns[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                  "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                  ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
    for (const std::string_view sign : kSigns) {
      if (!next_is(sign)) continue;
      if (sign == "(" || sign == "[" || sign == "{") open_ += sign == "(" ? ')' : sign == "[" ? ']' : '}';
      if (sign == ")" || sign == "]" || sign == "}") {
        if (open_.empty()) fail(fmt::format("unexpected '{}'", sign));
        if (open_.back() != sign[0]) fail(fmt::format("unexpected '{}', expected '{}'", sign, open_.back()));
        open_.pop_back();
      }
      add(Token::Kind::sign, std::string(sign));
      return advance(sign.size());
    }
    fail(fmt::format("unexpected character '{}'", rest().substr(0, decode(rest(), 0).bytes)));
  }

  // Digits with single underscores between them, from `begin`: where they end.
  template <typename IsDigit>
  size_t digits_end(size_t begin, IsDigit digit) const {
    size_t end = begin;
    while (end < rest().size() && (digit(rest()[end]) || (rest()[end] == '_' && end > begin &&
                                                          end + 1 < rest().size() && digit(rest()[end + 1]))))
      ++end;
    return end;
  }

  void read_number() {
    const auto at = [&](size_t i) { return i < rest().size() ? rest()[i] : '\0'; };
    const size_t whole = digits_end(0, is_digit);
    size_t end = whole;
    bool real = false;
    if (!(at_ > 0 && source_[at_ - 1] == '.')) {  // x.0.1 is not x.0 of 1
      if (at(end) == '.' && is_digit(at(end + 1))) {
        end = digits_end(end + 1, is_digit);
        real = true;
      }
      const size_t sign = at(end + 1) == '+' || at(end + 1) == '-' ? 1 : 0;
      if ((at(end) | 32) == 'e' && is_digit(at(end + 1 + sign))) {
        end = digits_end(end + 1 + sign, is_digit);
        real = true;
      }
    }
    if (!real) end = integer_end(whole);
    std::string text(rest().substr(0, end));
    text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
    add(real ? Token::Kind::real : Token::Kind::integer, std::move(text));
    advance(end);
  }

  // Decimal without a leading zero (but for zeros alone), or 0b, 0o, 0x.
  size_t integer_end(size_t whole) const {
    if (rest()[0] != '0') return whole;
    const char base = rest().size() > 1 ? static_cast<char>(rest()[1] | 32) : '\0';
    const auto digit = [base](char c) {
      if (base == 'b') return c == '0' || c == '1';
      if (base == 'o') return c >= '0' && c <= '7';
      return is_digit(c) || ((c | 32) >= 'a' && (c | 32) <= 'f');
    };
    if (base == 'b' || base == 'o' || base == 'x') {
      const size_t begin = rest().size() > 3 && rest()[2] == '_' && digit(rest()[3]) ? 3 : 2;
      const size_t end = digits_end(begin, digit);
      if (end > begin) return end;
    }
    return digits_end(0, [](char c) { return c == '0'; });
  }

  void read_string(char quote) {
    size_t end = 1;
    while (end < rest().size() && rest()[end] != quote) end += rest()[end] == '\\' ? 2 : 1;
    if (end >= rest().size()) fail("a string is not closed");
    add(Token::Kind::string, unescape(rest().substr(1, end - 1)));
    advance(end + 1);
  }

  std::string unescape(std::string_view text) const {
    std::string out;
    for (size_t at = 0; at < text.size();) {
      if (text[at] != '\\') {
        out += text[at++];
        continue;
      }
      at += 1 + append_escape(out, text.substr(at + 1));
    }
    return out;
  }

  // What stands after a backslash; returns the bytes it took.
  size_t append_escape(std::string& out, std::string_view text) const {
    static constexpr std::string_view kLetters = "\\'\"abfnrtv", kMeanings = "\\'\"\a\b\f\n\r\t\v";
    const char c = text[0];
    if (const size_t i = kLetters.find(c); i != kNone) {
      out += kMeanings[i];
      return 1;
    }
    if (c == '\n') return 1;
    if (c >= '0' && c <= '7') {
      size_t bytes = 0;
      char32_t point = 0;
      while (bytes < 3 && bytes < text.size() && text[bytes] >= '0' && text[bytes] <= '7')
        point = point * 8 + static_cast<char32_t>(text[bytes++] - '0');
      append_code_point(out, point);
      return bytes;
    }
    if (c == 'x') return append_hex(out, text, 2);
    if (c == 'u') return append_hex(out, text, 4);
    if (c == 'U') return append_hex(out, text, 8);
    if (c == 'N') fail("\\N{...} in a string is not supported");
    const CodePoint point = decode(text, 0);
    out += '\\';
    const auto p = static_cast<uint32_t>(point.value);
    if (p < 0x80) {
      out += c;
    } else {  // Jinja escapes such a character first, and the backslashes meet
      out += p < 0x100     ? fmt::format("x{:02x}", p)
             : p < 0x10000 ? fmt::format("u{:04x}", p)
                           : fmt::format("U{:08x}", p);
    }
    return point.bytes;
  }

  size_t append_hex(std::string& out, std::string_view text, size_t digits) const {
    char32_t point = 0;
    for (size_t i = 1; i <= digits; ++i) {
      const char c = i < text.size() ? text[i] : '\0';
      const char lower = static_cast<char>(c | 32);
      if (!is_digit(c) && !(lower >= 'a' && lower <= 'f'))
        fail(fmt::format("\\{} needs {} hex digits", text[0], digits));
      point = point * 16 + static_cast<char32_t>(is_digit(c) ? c - '0' : lower - 'a' + 10);
    }
    if (point > 0x10FFFF || (point >= 0xD800 && point < 0xE000))
      fail(fmt::format("\\{} names no character", text.substr(0, digits + 1)));
    append_code_point(out, point);
    return digits + 1;
  }

  std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starts_ = true;
  std::string open_;  // the brackets that are to come
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> read_tokens(std::string_view source) {
  return Reader(normalize_lines(source)).read();
}

}  // namespace trireme::jinja
