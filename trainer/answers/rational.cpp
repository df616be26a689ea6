#include "trainer/answers/rational.h"

namespace trireme::answers {

Rational::Rational(Integer top, Integer bottom) {
  const Integer common = gcd(top, bottom);
  top_ = top / common;
  bottom_ = bottom / common;
  if (bottom_.is_negative()) {
    top_ = -top_;
    bottom_ = -bottom_;
  }
}

std::string Rational::to_string() const {
  return is_whole() ? top_.to_string() : top_.to_string() + "/" + bottom_.to_string();
}

Rational Rational::operator-() const {
  Rational result = *this;
  result.top_ = -result.top_;
  return result;
}

Rational operator+(const Rational& a, const Rational& b) {
  return {a.top_ * b.bottom_ + b.top_ * a.bottom_, a.bottom_ * b.bottom_};
}

Rational operator*(const Rational& a, const Rational& b) {
  return {a.top_ * b.top_, a.bottom_ * b.bottom_};
}

Rational operator/(const Rational& a, const Rational& b) {
  return {a.top_ * b.bottom_, a.bottom_ * b.top_};
}

Rational power(const Rational& base, int64_t exponent) {
  if (exponent < 0) {
    if (base.is_zero()) throw NotExact("zero to a negative power");
    return Rational(1) / power(base, -exponent);
  }
  // Neither 0, 1 nor -1 grows; everything else is soon too large.
  if (exponent > 100000) throw NotExact("a power that is too large");
  Rational result = 1, square = base;
  for (int64_t left = exponent; left > 0; left >>= 1) {
    if (left & 1) result = result * square;
    if (left > 1) square = square * square;
  }
  return result;
}

}  // namespace trireme::answers
