// An answer as people write it, LaTeX or plain, cut into tokens: what only changes its looks is gone.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trainer/answers/rational.h"

namespace trireme::answers {

enum class TokenKind {
  number,    // 12, 1,234.5, .5
  symbol,    // one letter, with its subscript: x, a_1; or the name of a constant: pi, e, i, infinity
  function,  // sin, sqrt, frac, ...
  text,      // words: \text{cm}, apples, and, or
  mark,  // one of + - * / ^ ! % | ( ) [ ] { } \{ \} , ; : = < > <= >= != in cup cap pm deg & \\ _ begin end
};

struct Token {
  TokenKind kind;
  std::string text;
  Rational value = {};  // of a number
  int decimals = -1;    // of a number: digits behind the point; -1: it has no point
  bool after_space = false;

  bool is(std::string_view mark) const { return kind == TokenKind::mark && text == mark; }
  bool is_text(std::string_view word) const { return kind == TokenKind::text && text == word; }
};

/// Throws NotExact where a number has too many digits.
std::vector<Token> tokens_of(std::string_view answer);

}  // namespace trireme::answers
