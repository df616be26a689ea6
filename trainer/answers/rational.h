// Fractions of whole numbers, in lowest terms: exact.
#pragma once

#include <compare>
#include <optional>
#include <string>

#include "trainer/answers/integer.h"

namespace trireme::answers {

/// Arithmetic throws NotExact where numbers grow too large.
class Rational {
 public:
  Rational() = default;
  Rational(int64_t value) : top_(value) {}             // NOLINT: numbers are numbers
  Rational(Integer value) : top_(std::move(value)) {}  // NOLINT
  /// `bottom` is not zero.
  Rational(Integer top, Integer bottom);

  const Integer& top() const { return top_; }
  const Integer& bottom() const { return bottom_; }  // above zero
  bool is_zero() const { return top_.is_zero(); }
  bool is_whole() const { return bottom_ == Integer(1); }
  bool is_negative() const { return top_.is_negative(); }
  long double to_double() const { return top_.to_double() / bottom_.to_double(); }
  /// "-3/4", "12"
  std::string to_string() const;

  Rational operator-() const;
  friend Rational operator+(const Rational& a, const Rational& b);
  friend Rational operator-(const Rational& a, const Rational& b) { return a + -b; }
  friend Rational operator*(const Rational& a, const Rational& b);
  /// `b` is not zero.
  friend Rational operator/(const Rational& a, const Rational& b);
  friend bool operator==(const Rational& a, const Rational& b) = default;
  friend std::strong_ordering operator<=>(const Rational& a, const Rational& b) {
    return a.top_ * b.bottom_ <=> b.top_ * a.bottom_;
  }

 private:
  Integer top_ = 0, bottom_ = 1;
};

/// `base` to a whole power; zero to a negative one throws NotExact, as does what is too large.
Rational power(const Rational& base, int64_t exponent);

}  // namespace trireme::answers
