// Whole numbers of any size, up to a bound: so that answers are compared exactly and nobody's digits cost
// more than they are worth.
#pragma once

#include <compare>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::answers {

/// A number outgrew kMaxWords, or a form was asked of it that it does not have: compare in another way.
struct NotExact : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Integer {
 public:
  static constexpr size_t kMaxWords = 32;  // 1024 bits

  Integer() = default;
  Integer(int64_t value);  // NOLINT: numbers are numbers
  /// `digits` holds nothing but decimal digits. Throws NotExact if there are too many.
  static Integer from_digits(std::string_view digits);

  bool is_zero() const { return words_.empty(); }
  bool is_negative() const { return negative_; }
  bool is_odd() const { return !words_.empty() && (words_[0] & 1) != 0; }
  Integer operator-() const;
  Integer abs() const;

  // Throw NotExact where the result is too large.
  friend Integer operator+(const Integer& a, const Integer& b);
  friend Integer operator-(const Integer& a, const Integer& b) { return a + -b; }
  friend Integer operator*(const Integer& a, const Integer& b);
  /// Rounded towards zero; `b` is not zero.
  friend Integer operator/(const Integer& a, const Integer& b) { return divided(a, b, nullptr); }
  /// The remainder, with the sign of `a`.
  friend Integer operator%(const Integer& a, const Integer& b);
  friend std::strong_ordering operator<=>(const Integer& a, const Integer& b);
  friend bool operator==(const Integer& a, const Integer& b) = default;

  /// Fits in an int64_t and lies between the two.
  bool is_between(int64_t low, int64_t high) const { return *this >= Integer(low) && *this <= Integer(high); }
  /// Only where is_between says that it fits.
  int64_t to_int64() const;
  long double to_double() const;
  std::string to_string() const;

 private:
  static Integer divided(const Integer& a, const Integer& b, Integer* remainder);
  static std::strong_ordering compare_size(const Integer& a, const Integer& b);
  void trim();

  std::vector<uint32_t> words_;  // the lowest first, none for zero
  bool negative_ = false;
};

Integer gcd(Integer a, Integer b);

}  // namespace trireme::answers
