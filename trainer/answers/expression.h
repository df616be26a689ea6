// Expressions: what an answer says in numbers, symbols and operations; exactly where that is possible, else
// as a number.
#pragma once

#include <complex>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/answers/notation.h"

namespace trireme::answers {

struct Expression {
  enum class Kind { number, symbol, add, multiply, divide, power, function };
  Kind kind = Kind::number;
  Rational value;                 // of a number
  std::string name;               // of a symbol or function
  std::vector<Expression> parts;  // what it is made of: two of divide and power
  bool is_decimal = false;        // a number that was written with a point ...
  int decimals = 0;               // ... and so many digits behind it
  bool is_percentage = false;     // it stood before a percent sign, which is not part of it
  std::string unit;               // words behind it, which are not part of it: "cm"
};

Expression number(Rational value);
Expression operation(Expression::Kind kind, Expression a, Expression b);
Expression negated(Expression e);

/// All of `tokens` as an expression. `plus_minus` is what a plus-minus sign stands for: 1 or -1. Nothing if
/// they are no expression that is known here.
std::optional<Expression> parse_expression(std::span<const Token> tokens, int plus_minus = 1);

enum class Same { yes, no, unknown };

/// By exact arithmetic: polynomials over fractions, with roots of primes, pi, e and i, and quotients of such.
/// Unknown where an expression holds something else, or outgrows the bounds.
Same same_exactly(const Expression& a, const Expression& b);
/// Whether a = c * b for a constant c that is not zero: two equations of the same solutions.
Same same_up_to_factor(const Expression& a, const Expression& b);
/// The exact value, where it is a fraction.
std::optional<Rational> exact_value(const Expression& e);

using Complex = std::complex<long double>;
/// With numbers in place of symbols; what cannot be computed is not finite.
Complex evaluate(const Expression& e, const std::map<std::string, Complex>& symbols);
/// By their values at a few fixed points.
bool same_numerically(const Expression& a, const Expression& b);

}  // namespace trireme::answers
