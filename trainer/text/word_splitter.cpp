#include "trainer/text/word_splitter.h"

#include "runtime/base/error.h"
#include "trainer/text/unicode.h"
#include "trainer/text/utf8.h"

namespace trireme::text {
namespace {

enum class Kind {
  letter,
  number,
  newline,
  blank,
  other,
  end
};  // newline: \r or \n; blank: other white space

struct Character {
  Kind kind;
  size_t end;  // where the next one begins
};

Kind kind_of(char32_t c) {
  if (c < 0x80) {
    if ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') return Kind::letter;
    if (c >= '0' && c <= '9') return Kind::number;
    if (c == '\n' || c == '\r') return Kind::newline;
    return c == ' ' || (c >= 0x9 && c <= 0xD) ? Kind::blank : Kind::other;
  }
  if (unicode::is_letter(c)) return Kind::letter;
  if (unicode::is_number(c)) return Kind::number;
  return unicode::is_space(c) ? Kind::blank : Kind::other;
}

Character character_at(std::string_view text, size_t at) {
  if (at >= text.size()) return {Kind::end, at};
  const CodePoint c = decode_utf8(text, at);
  return {kind_of(c.value), at + c.size};
}

bool is_white(Kind kind) {
  return kind == Kind::blank || kind == Kind::newline;
}

// Where the run of characters of this kind that begins at `at` ends.
size_t run_end(std::string_view text, size_t at, Kind kind) {
  for (Character c = character_at(text, at); c.kind == kind; c = character_at(text, at)) at = c.end;
  return at;
}

// \s+(?!\S)|\s+ : a run of white space, without its last character if a word follows (which takes it).
size_t white_end(std::string_view text, size_t begin) {
  size_t at = begin, last = begin;
  for (Character c = character_at(text, at); is_white(c.kind); c = character_at(text, at)) {
    last = at;
    at = c.end;
  }
  return at == text.size() || last == begin ? at : last;
}

// 's|'t|'re|'ve|'m|'ll|'d after the apostrophe at `begin`; npos if there is none. Without case, U+017F
// (long s) is an s as well.
size_t contraction_end(std::string_view text, size_t begin, bool any_case) {
  const auto letter = [&](size_t at) {
    const char c = at < text.size() ? text[at] : '\0';
    return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
  };
  const char first = letter(begin + 1), second = letter(begin + 2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return begin + 2;
  if ((first == 'r' || first == 'v') && second == 'e') return begin + 3;
  if (first == 'l' && second == 'l') return begin + 3;
  if (any_case && text.substr(begin + 1).starts_with("\u017F")) return begin + 3;
  return std::string_view::npos;
}

// A splitter of which every part of a text is a match: Scanner::word_end says where the word at `begin` ends.
template <typename Scanner>
class ScanningSplitter : public WordSplitter {
 public:
  explicit ScanningSplitter(Scanner scanner) : scanner_(scanner) {}

  void split(std::string_view text, std::vector<std::string_view>& words) const override {
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = scanner_.word_end(text, begin);
      words.push_back(text.substr(begin, end - begin));
      begin = end;
    }
  }

 private:
  const Scanner scanner_;
};

template <typename Scanner>
std::unique_ptr<WordSplitter> splitter_of(Scanner scanner) {
  return std::make_unique<ScanningSplitter<Scanner>>(scanner);
}

struct Gpt2Scanner {
  size_t word_end(std::string_view text, size_t begin) const {
    if (text[begin] == '\'')
      if (const size_t end = contraction_end(text, begin, false); end != std::string_view::npos) return end;
    // " ?" before a run of letters, of numbers, or of neither.
    const size_t word = text[begin] == ' ' ? begin + 1 : begin;
    const Character c = character_at(text, word);
    if (c.kind == Kind::end || is_white(c.kind)) return white_end(text, begin);
    return run_end(text, c.end, c.kind);
  }
};

// Llama-3 (numbers in groups of up to three) and Qwen2 (each digit alone).
struct QwenScanner {
  int max_digits;

  size_t word_end(std::string_view text, size_t begin) const {
    if (text[begin] == '\'')
      if (const size_t end = contraction_end(text, begin, true); end != std::string_view::npos) return end;
    const Character first = character_at(text, begin);
    if (first.kind == Kind::letter) return run_end(text, first.end, Kind::letter);
    if (first.kind == Kind::number) return number_end(text, first.end);
    const Character second = character_at(text, first.end);
    if (first.kind != Kind::newline && second.kind == Kind::letter)
      return run_end(text, second.end, Kind::letter);
    if (first.kind == Kind::other || (text[begin] == ' ' && second.kind == Kind::other))
      return run_end(text, run_end(text, first.end, Kind::other), Kind::newline);
    // \s*[\r\n]+ : up to the last line break of the run.
    size_t after_newline = begin;
    for (size_t at = begin;;) {
      const Character c = character_at(text, at);
      if (!is_white(c.kind)) break;
      at = c.end;
      if (c.kind == Kind::newline) after_newline = at;
    }
    return after_newline > begin ? after_newline : white_end(text, begin);
  }

  size_t number_end(std::string_view text, size_t at) const {
    for (int n = 1; n < max_digits; ++n) {
      const Character c = character_at(text, at);
      if (c.kind != Kind::number) break;
      at = c.end;
    }
    return at;
  }
};

struct DigitsScanner {
  bool individual_digits;

  size_t word_end(std::string_view text, size_t begin) const {
    Character c = character_at(text, begin);
    const bool number = c.kind == Kind::number;
    size_t at = c.end;
    if (number && individual_digits) return at;
    for (c = character_at(text, at); c.kind != Kind::end && (c.kind == Kind::number) == number;
         c = character_at(text, at))
      at = c.end;
    return at;
  }
};

}  // namespace

std::unique_ptr<WordSplitter> make_splitter(const std::string& regex) {
  if (regex == kGpt2Regex) return splitter_of(Gpt2Scanner{});
  if (regex == kLlama3Regex) return splitter_of(QwenScanner{3});
  if (regex == kQwen2Regex) return splitter_of(QwenScanner{1});
  return make_regex_splitter(regex);
}

std::unique_ptr<WordSplitter> make_digits_splitter(bool individual_digits) {
  return splitter_of(DigitsScanner{individual_digits});
}

}  // namespace trireme::text
