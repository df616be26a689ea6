#include <gtest/gtest.h>

#include <random>

#include "trainer/answers/rational.h"

namespace trireme::answers {
namespace {

__extension__ using Wide = __int128;

std::string text_of(Wide value) {
  if (value == 0) return "0";
  std::string digits;
  const bool negative = value < 0;
  for (; value != 0; value /= 10)
    digits.insert(digits.begin(), static_cast<char>('0' + (negative ? -(value % 10) : value % 10)));
  return negative ? "-" + digits : digits;
}

int64_t some(std::mt19937_64& random) {
  return static_cast<int64_t>(random()) >> (random() % 63);
}

// Held to the compiler's own 128-bit numbers.
TEST(Integer, CalculatesAsTheCompilerDoes) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 20000; ++i) {
    const int64_t a = some(random), b = some(random), c = some(random);
    EXPECT_EQ((Integer(a) + Integer(b)).to_string(), text_of(Wide{a} + b));
    EXPECT_EQ((Integer(a) - Integer(b)).to_string(), text_of(Wide{a} - b));
    EXPECT_EQ((Integer(a) * Integer(b)).to_string(), text_of(Wide{a} * b));
    const Wide product = Wide{a} * b;
    if (c != 0) {
      EXPECT_EQ((Integer(a) * Integer(b) / Integer(c)).to_string(), text_of(product / c));
      EXPECT_EQ((Integer(a) * Integer(b) % Integer(c)).to_string(), text_of(product % c));
    }
    EXPECT_EQ(Integer(a) < Integer(b), a < b);
    EXPECT_EQ(Integer(a).to_int64(), a);
    EXPECT_EQ(Integer::from_digits(Integer(a).abs().to_string()), Integer(a).abs());
  }
}

TEST(Integer, DividesNumbersOfManyWords) {
  std::mt19937_64 random(4);
  for (int i = 0; i < 500; ++i) {
    Integer a = some(random), b = some(random) | 1;
    for (auto k = random() % 8; k > 0; --k) a = a * Integer(some(random) | 1);
    for (auto k = random() % 5; k > 0; --k) b = b * Integer(some(random) | 1);
    const Integer quotient = a / b, rest = a % b;
    EXPECT_EQ(quotient * b + rest, a);
    EXPECT_LT(rest.abs(), b.abs());
    EXPECT_TRUE(rest.is_zero() || rest.is_negative() == a.is_negative());
  }
}

TEST(Integer, HasABound) {
  EXPECT_THROW((void)Integer::from_digits(std::string(10000, '9')), NotExact);
  EXPECT_EQ(Integer::from_digits(std::string(10000, '0') + "7"), Integer(7));
  Integer big = 1;
  EXPECT_THROW(for (;;) big = big * Integer(1000000007), NotExact);
}

TEST(Rational, IsInLowestTermsAndExact) {
  EXPECT_EQ(Rational(Integer(6), Integer(-8)).to_string(), "-3/4");
  EXPECT_EQ((Rational(Integer(1), Integer(3)) + Rational(Integer(1), Integer(6))).to_string(), "1/2");
  EXPECT_EQ(power(Rational(Integer(2), Integer(3)), -3).to_string(), "27/8");
  EXPECT_THROW((void)power(Rational(0), -1), NotExact);
  EXPECT_THROW((void)power(Rational(3), 100000), NotExact);
  std::mt19937_64 random(5);
  for (int i = 0; i < 5000; ++i) {
    const auto fraction = [&] {
      return Rational(Integer(some(random) >> 20), Integer((some(random) >> 30) | 1));
    };
    const Rational a = fraction(), b = fraction(), c = fraction();
    EXPECT_EQ((a + b) * c, a * c + b * c);
    EXPECT_EQ(a - b, -(b - a));
    if (!b.is_zero()) {
      EXPECT_EQ(a / b * b, a);
    }
  }
}

}  // namespace
}  // namespace trireme::answers
