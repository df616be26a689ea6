#include "trainer/jinja/unicode_text.h"

#include <algorithm>
#include <iterator>

namespace trireme::jinja {

namespace {

struct Run {  // first, first + step, ..., last
  char32_t first, last;
  int32_t step, value;
};

struct Expansion {
  char32_t point;
  const char32_t* text;
};

#include "trainer/jinja/unicode_tables.inc"

template <size_t n>
const Run* find_run(const Run (&runs)[n], char32_t point) {
  const Run* after =
      std::upper_bound(runs, runs + n, point, [](char32_t p, const Run& run) { return p < run.first; });
  if (after == runs) return nullptr;
  const Run* run = after - 1;
  return point <= run->last && (point - run->first) % static_cast<char32_t>(run->step) == 0 ? run : nullptr;
}

template <size_t n, size_t m>
void append_mapped(std::string& text, char32_t point, const Run (&runs)[n],
                   const Expansion (&expansions)[m]) {
  if (const Run* run = find_run(runs, point)) {
    append_code_point(text, static_cast<char32_t>(static_cast<int64_t>(point) + run->value));
    return;
  }
  const Expansion* found = std::lower_bound(std::begin(expansions), std::end(expansions), point,
                                            [](const Expansion& e, char32_t p) { return e.point < p; });
  if (found == std::end(expansions) || found->point != point) {
    append_code_point(text, point);
    return;
  }
  for (const char32_t* p = found->text; *p; ++p) append_code_point(text, *p);
}

bool is_upper_ascii(char32_t p) {
  return p >= 'A' && p <= 'Z';
}
bool is_lower_ascii(char32_t p) {
  return p >= 'a' && p <= 'z';
}

bool is_uppercase(char32_t p) {
  return p < 0x80 ? is_upper_ascii(p) : find_run(kUppercase, p) != nullptr;
}
bool is_lowercase(char32_t p) {
  return p < 0x80 ? is_lower_ascii(p) : find_run(kLowercase, p) != nullptr;
}

enum class Case { upper, lower, title };

void append_in(std::string& text, CodePoint point, std::string_view bytes, Case letter_case) {
  const char32_t p = point.value;
  if (p < 0x80) {
    const bool lower = letter_case == Case::lower;
    if (lower && is_upper_ascii(p)) {
      text += static_cast<char>(p + 32);
    } else if (!lower && is_lower_ascii(p)) {
      text += static_cast<char>(p - 32);
    } else {
      text += static_cast<char>(p);
    }
  } else if (point.bytes == 1) {
    text += bytes;  // no UTF-8
  } else if (letter_case == Case::upper) {
    append_mapped(text, p, kUpper, kUpperExpansions);
  } else if (letter_case == Case::lower) {
    append_mapped(text, p, kLower, kLowerExpansions);
  } else {
    append_mapped(text, p, kTitle, kTitleExpansions);
  }
}

constexpr char32_t kCapitalSigma = 0x3A3, kFinalSigma = 0x3C2;

bool is_ignorable(char32_t p) {
  return find_run(kCaseIgnorable, p) != nullptr;
}

// A sigma that ends a word has a form of its own; apostrophes and accents do not end one.
bool ends_word(std::string_view text, size_t at, bool after_letter) {
  if (!after_letter) return false;
  for (size_t next = at + 2; next < text.size();) {
    const CodePoint point = decode(text, next);
    if (!is_ignorable(point.value)) return !is_cased(point.value);
    next += point.bytes;
  }
  return true;
}

enum class First { upper, lower, title_each_word, title_once };

std::string recase(std::string_view text, First style) {
  std::string out;
  out.reserve(text.size());
  bool after_letter = false, in_word = false;  // the second looks past apostrophes and accents
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = decode(text, at);
    Case to = Case::lower;
    if (style == First::upper) to = Case::upper;
    if (style == First::title_each_word && !after_letter) to = Case::title;
    if (style == First::title_once && at == 0) to = Case::title;
    if (to == Case::lower && point.value == kCapitalSigma && ends_word(text, at, in_word)) {
      append_code_point(out, kFinalSigma);
    } else {
      append_in(out, point, text.substr(at, point.bytes), to);
    }
    after_letter = is_cased(point.value);
    if (!is_ignorable(point.value)) in_word = after_letter;
    at += point.bytes;
  }
  return out;
}

}  // namespace

CodePoint decode(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) -> char32_t {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0;
  };
  const auto follows = [&](size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const char32_t b = byte(0);
  if (b >= 0xC2 && b < 0xE0 && follows(1)) return {(b & 0x1F) << 6 | (byte(1) & 0x3F), 2};
  if (b >= 0xE0 && b < 0xF0 && follows(1) && follows(2))
    return {(b & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F), 3};
  if (b >= 0xF0 && b < 0xF5 && follows(1) && follows(2) && follows(3))
    return {(b & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F), 4};
  return {b < 0x80 ? b : kStrayByte + b, 1};
}

void append_code_point(std::string& text, char32_t p) {
  if (p < 0x80) {
    text += static_cast<char>(p);
  } else if (p < 0x800) {
    text += static_cast<char>(0xC0 | p >> 6);
    text += static_cast<char>(0x80 | (p & 0x3F));
  } else if (p < 0x10000) {
    text += static_cast<char>(0xE0 | p >> 12);
    text += static_cast<char>(0x80 | (p >> 6 & 0x3F));
    text += static_cast<char>(0x80 | (p & 0x3F));
  } else {
    text += static_cast<char>(0xF0 | p >> 18);
    text += static_cast<char>(0x80 | (p >> 12 & 0x3F));
    text += static_cast<char>(0x80 | (p >> 6 & 0x3F));
    text += static_cast<char>(0x80 | (p & 0x3F));
  }
}

size_t count_code_points(std::string_view text) {
  size_t count = 0;
  for (size_t at = 0; at < text.size(); at += decode(text, at).bytes) ++count;
  return count;
}

std::vector<std::string_view> split_code_points(std::string_view text) {
  std::vector<std::string_view> points;
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = decode(text, at).bytes;
    points.push_back(text.substr(at, bytes));
    at += bytes;
  }
  return points;
}

bool is_space(char32_t p) {
  return (p >= 0x09 && p <= 0x0D) || (p >= 0x1C && p <= 0x20) || p == 0x85 || p == 0xA0 || p == 0x1680 ||
         (p >= 0x2000 && p <= 0x200A) || p == 0x2028 || p == 0x2029 || p == 0x202F || p == 0x205F ||
         p == 0x3000;
}

bool is_line_end(char32_t p) {
  return (p >= 0x0A && p <= 0x0D) || (p >= 0x1C && p <= 0x1E) || p == 0x85 || p == 0x2028 || p == 0x2029;
}

bool is_printable(char32_t p) {
  return p < 0x80 ? p >= 0x20 && p < 0x7F : find_run(kUnprintable, p) == nullptr;
}

bool is_cased(char32_t p) {
  return is_uppercase(p) || is_lowercase(p) || (p >= 0x80 && find_run(kTitlecase, p) != nullptr);
}

namespace {

bool strips(std::string_view text, CodePoint point, size_t at, const std::optional<std::string_view>& chars) {
  if (!chars) return is_space(point.value);
  const auto one = text.substr(at, point.bytes);
  for (size_t i = 0; i < chars->size();) {
    const size_t bytes = decode(*chars, i).bytes;
    if (chars->substr(i, bytes) == one) return true;
    i += bytes;
  }
  return false;
}

}  // namespace

std::string_view strip_left(std::string_view text, std::optional<std::string_view> chars) {
  size_t at = 0;
  while (at < text.size()) {
    const CodePoint point = decode(text, at);
    if (!strips(text, point, at, chars)) break;
    at += point.bytes;
  }
  return text.substr(at);
}

std::string_view strip_right(std::string_view text, std::optional<std::string_view> chars) {
  while (!text.empty()) {
    size_t at = text.size() - 1;
    for (int back = 0; back < 3 && at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80; ++back)
      --at;
    CodePoint point = decode(text, at);
    if (at + point.bytes != text.size()) point = decode(text, at = text.size() - 1);
    if (!strips(text, point, at, chars)) break;
    text.remove_suffix(text.size() - at);
  }
  return text;
}

std::string to_upper(std::string_view text) {
  return recase(text, First::upper);
}
std::string to_lower(std::string_view text) {
  return recase(text, First::lower);
}
std::string capitalize(std::string_view text) {
  return recase(text, First::title_once);
}
std::string to_title(std::string_view text) {
  return recase(text, First::title_each_word);
}

bool is_upper(std::string_view text) {
  bool any = false;
  for (size_t at = 0; at < text.size(); at += decode(text, at).bytes) {
    const char32_t p = decode(text, at).value;
    if (is_cased(p) && !is_uppercase(p)) return false;
    any |= is_uppercase(p);
  }
  return any;
}

bool is_lower(std::string_view text) {
  bool any = false;
  for (size_t at = 0; at < text.size(); at += decode(text, at).bytes) {
    const char32_t p = decode(text, at).value;
    if (is_cased(p) && !is_lowercase(p)) return false;
    any |= is_lowercase(p);
  }
  return any;
}

bool is_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = decode(text, at);
    if (point.value >= kStrayByte || (point.value >= 0xD800 && point.value < 0xE000)) return false;
    if ((point.bytes == 3 && point.value < 0x800) || (point.bytes == 4 && point.value < 0x10000))
      return false;
    at += point.bytes;
  }
  return true;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = decode(text, at);
    size_t end = at + point.bytes;
    if (is_line_end(point.value)) {
      if (point.value == '\r' && end < text.size() && text[end] == '\n') ++end;
      lines.push_back(text.substr(begin, (keep_ends ? end : at) - begin));
      begin = end;
    }
    at = end;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

}  // namespace trireme::jinja
