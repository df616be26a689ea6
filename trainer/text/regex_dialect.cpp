#include "trainer/text/regex_dialect.h"

#include <algorithm>
#include <string_view>

#include "runtime/base/error.h"
#include "trainer/text/utf8.h"

namespace trireme::text {
namespace {

class Translation {
 public:
  explicit Translation(const std::string& regex) : regex_(regex) {}

  std::string run() {
    bool in_class = false;
    while (at_ < regex_.size()) {
      const char c = regex_[at_];
      if (c == '\\') {
        escape(in_class);
      } else if (in_class) {
        if (c == '[') refuse(next() == ':' ? "a POSIX class ([:alpha:])" : "a class within a class");
        if (c == '&' && next() == '&') refuse("an intersection of classes (&&)");
        in_class = c != ']';
        copy(1);
      } else if (c == '[') {
        in_class = true;
        copy(next() == '^' ? 2 : 1);
        if (at_ < regex_.size() && regex_[at_] == ']') refuse("a class that begins with ]");
      } else if (c == '(') {
        group();
      } else if (c == '}' && next() == '+') {
        refuse("{n,m}+, which Oniguruma repeats and others take as possessive");
      } else if (c == '{' && next() == ',') {
        refuse("{,n}; write {0,n}");
      } else {
        copy(1);
      }
    }
    return out_;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    fail(ErrorCode::invalid_config, "the regular expression uses {}, which is not supported: {}", what,
         shortened(regex_));
  }

  char next() const { return at_ + 1 < regex_.size() ? regex_[at_ + 1] : '\0'; }
  void copy(size_t num_bytes) {
    out_.append(regex_, at_, num_bytes);
    at_ += num_bytes;
  }

  void group() {
    if (next() == '*') refuse("a verb (*...)");
    copy(1);
    if (at_ + 1 >= regex_.size() || regex_[at_] != '?') return;
    // (?m) is about . in one dialect and about ^ and $ in the other.
    const size_t end = regex_.find_first_not_of("imsxnadu-", at_ + 1);
    const std::string_view flags =
        std::string_view(regex_).substr(at_ + 1, std::min(end, regex_.size()) - at_ - 1);
    if (flags.find_first_not_of("ix-") != std::string_view::npos) refuse("a flag other than (?i) and (?x)");
    constexpr std::string_view kKinds = ":=!<>#)";
    if (end == std::string::npos || kKinds.find(regex_[end]) == std::string_view::npos)
      refuse("a group of a kind that only one of the dialects has");
    // Amid an expression, flags reach past the next | in one dialect and end there in the other.
    if (regex_[end] == ')' && at_ > 1) refuse("flags amid the expression; write (?i:...)");
  }

  // What is the same in both: escaped punctuation, and these letters.
  void escape(bool in_class) {
    const char c = next();
    const bool letter_or_digit = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
    if (c == 'p' || c == 'P') return property();
    if (c == 'x' && at_ + 2 < regex_.size() && regex_[at_ + 2] == '{') return copy(3);
    if (c == 'x' && at_ + 2 < regex_.size() && regex_[at_ + 2] >= '0' && regex_[at_ + 2] <= '7')
      return copy(3);
    constexpr std::string_view kSame = "adefnrstDS", kSameOutside = "AGKZz";
    const bool same =
        kSame.find(c) != std::string_view::npos ||
        (!in_class && (kSameOutside.find(c) != std::string_view::npos || (c >= '1' && c <= '9')));
    if (letter_or_digit && !same) refuse(std::string("\\") + c);
    copy(2);
  }

  // \p{L}, \p{Lu}, \p{^L}: general categories, the same. \p{Han}: the characters of that script, not those
  // that are used with it as well.
  void property() {
    const size_t begin = at_ + 2;
    const size_t end =
        begin < regex_.size() && regex_[begin] == '{' ? regex_.find('}', begin) : std::string::npos;
    if (end == std::string::npos) refuse("\\p without a name in braces");
    std::string name = regex_.substr(begin + 1, end - begin - 1);
    bool negated = regex_[at_ + 1] == 'P';
    if (!name.empty() && name[0] == '^') {
      negated = !negated;
      name.erase(0, 1);
    }
    constexpr std::string_view kCategories =
        " L Lu Ll Lt Lm Lo M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So Z Zs Zl Zp C Cc Cf Co ";
    constexpr std::string_view kScripts =
        " Arabic Armenian Bengali Bopomofo Cyrillic Devanagari Ethiopic Georgian Greek Gujarati Gurmukhi Han "
        "Hangul "
        "Hebrew Hiragana Kannada Katakana Khmer Lao Latin Malayalam Mongolian Myanmar Oriya Sinhala Tamil "
        "Telugu Thai Tibetan ";
    const auto is_in = [&](std::string_view names) {
      return name.find(' ') == std::string::npos && names.find(" " + name + " ") != std::string_view::npos;
    };
    if (!is_in(kCategories) && !is_in(kScripts)) refuse("\\p{" + name + "}");
    out_ += negated ? "\\P{" : "\\p{";
    out_ += is_in(kScripts) ? "sc:" + name + "}" : name + "}";
    at_ = end + 1;
  }

  const std::string& regex_;
  std::string out_;
  size_t at_ = 0;
};

}  // namespace

std::string to_pcre2(const std::string& regex) {
  return Translation(regex).run();
}

}  // namespace trireme::text
