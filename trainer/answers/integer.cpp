#include "trainer/answers/integer.h"

#include <algorithm>
#include <utility>

namespace trireme::answers {

Integer::Integer(int64_t value) : negative_(value < 0) {
  auto size = negative_ ? ~static_cast<uint64_t>(value) + 1 : static_cast<uint64_t>(value);
  for (; size != 0; size >>= 32) words_.push_back(static_cast<uint32_t>(size));
}

Integer Integer::from_digits(std::string_view digits) {
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
  if (digits.size() > kMaxWords * 9) throw NotExact("a number of too many digits");
  Integer result;
  for (const char digit : digits) {
    uint64_t carry = static_cast<uint64_t>(digit - '0');
    for (uint32_t& word : result.words_) {
      carry += static_cast<uint64_t>(word) * 10;
      word = static_cast<uint32_t>(carry);
      carry >>= 32;
    }
    if (carry != 0) result.words_.push_back(static_cast<uint32_t>(carry));
  }
  result.trim();
  return result;
}

void Integer::trim() {
  while (!words_.empty() && words_.back() == 0) words_.pop_back();
  if (words_.empty()) negative_ = false;
  if (words_.size() > kMaxWords) throw NotExact("a number of too many digits");
}

Integer Integer::operator-() const {
  Integer result = *this;
  result.negative_ = !negative_ && !is_zero();
  return result;
}

Integer Integer::abs() const {
  return negative_ ? -*this : *this;
}

std::strong_ordering Integer::compare_size(const Integer& a, const Integer& b) {
  if (a.words_.size() != b.words_.size()) return a.words_.size() <=> b.words_.size();
  return std::lexicographical_compare_three_way(a.words_.rbegin(), a.words_.rend(), b.words_.rbegin(),
                                                b.words_.rend());
}

std::strong_ordering operator<=>(const Integer& a, const Integer& b) {
  if (a.negative_ != b.negative_)
    return a.negative_ ? std::strong_ordering::less : std::strong_ordering::greater;
  return a.negative_ ? Integer::compare_size(b, a) : Integer::compare_size(a, b);
}

Integer operator+(const Integer& a, const Integer& b) {
  Integer result;
  if (a.negative_ == b.negative_) {
    const Integer& longer = a.words_.size() >= b.words_.size() ? a : b;
    const Integer& shorter = &longer == &a ? b : a;
    result = longer;
    uint64_t carry = 0;
    for (size_t i = 0; i < result.words_.size(); ++i) {
      carry += static_cast<uint64_t>(result.words_[i]) + (i < shorter.words_.size() ? shorter.words_[i] : 0);
      result.words_[i] = static_cast<uint32_t>(carry);
      carry >>= 32;
    }
    if (carry != 0) result.words_.push_back(static_cast<uint32_t>(carry));
  } else {
    const bool a_larger = Integer::compare_size(a, b) >= 0;
    const Integer& smaller = a_larger ? b : a;
    result = a_larger ? a : b;
    int64_t borrow = 0;
    for (size_t i = 0; i < result.words_.size(); ++i) {
      int64_t word = static_cast<int64_t>(result.words_[i]) - borrow -
                     (i < smaller.words_.size() ? static_cast<int64_t>(smaller.words_[i]) : 0);
      borrow = word < 0 ? 1 : 0;
      if (word < 0) word += int64_t{1} << 32;
      result.words_[i] = static_cast<uint32_t>(word);
    }
  }
  result.trim();
  return result;
}

Integer operator*(const Integer& a, const Integer& b) {
  Integer result;
  result.negative_ = a.negative_ != b.negative_;
  result.words_.assign(a.words_.size() + b.words_.size(), 0);
  for (size_t i = 0; i < a.words_.size(); ++i) {
    uint64_t carry = 0;
    for (size_t j = 0; j < b.words_.size(); ++j) {
      carry += static_cast<uint64_t>(a.words_[i]) * b.words_[j] + result.words_[i + j];
      result.words_[i + j] = static_cast<uint32_t>(carry);
      carry >>= 32;
    }
    result.words_[i + b.words_.size()] = static_cast<uint32_t>(carry);
  }
  result.trim();
  return result;
}

// Bit by bit: numbers here are short, and shifting cannot be got wrong.
Integer Integer::divided(const Integer& a, const Integer& b, Integer* remainder) {
  Integer quotient, rest;
  const Integer divisor = b.abs();
  if (divisor.words_.size() == 1) {
    quotient.words_ = a.words_;
    uint64_t carry = 0;
    for (size_t i = a.words_.size(); i-- > 0;) {
      carry = carry << 32 | a.words_[i];
      quotient.words_[i] = static_cast<uint32_t>(carry / divisor.words_[0]);
      carry %= divisor.words_[0];
    }
    rest = Integer(static_cast<int64_t>(carry));
  } else {
    // The words that are surely smaller than the divisor are rest from the beginning.
    const size_t high_words = std::min(a.words_.size(), divisor.words_.size() - 1);
    const size_t low_words = a.words_.size() - high_words;
    rest.words_.assign(a.words_.begin() + static_cast<ptrdiff_t>(low_words), a.words_.end());
    rest.trim();
    quotient.words_.assign(a.words_.size(), 0);
    for (size_t bit = low_words * 32; bit-- > 0;) {
      uint32_t low = a.words_[bit / 32] >> bit % 32 & 1;
      for (uint32_t& word : rest.words_) {
        const uint32_t high = word >> 31;
        word = word << 1 | low;
        low = high;
      }
      if (low != 0) rest.words_.push_back(low);
      if (compare_size(rest, divisor) >= 0) {
        rest = rest - divisor;
        quotient.words_[bit / 32] |= uint32_t{1} << bit % 32;
      }
    }
  }
  quotient.negative_ = a.negative_ != b.negative_;
  quotient.trim();
  rest.negative_ = a.negative_;
  rest.trim();
  if (remainder) *remainder = std::move(rest);
  return quotient;
}

Integer operator%(const Integer& a, const Integer& b) {
  Integer remainder;
  Integer::divided(a, b, &remainder);
  return remainder;
}

int64_t Integer::to_int64() const {
  uint64_t size = 0;
  for (size_t i = words_.size(); i-- > 0;) size = size << 32 | words_[i];
  return static_cast<int64_t>(negative_ ? ~size + 1 : size);
}

long double Integer::to_double() const {
  long double value = 0;
  for (size_t i = words_.size(); i-- > 0;) value = value * 4294967296.0L + words_[i];
  return negative_ ? -value : value;
}

std::string Integer::to_string() const {
  if (is_zero()) return "0";
  std::string digits;
  Integer left = abs();
  while (!left.is_zero()) {
    uint64_t carry = 0;
    for (size_t i = left.words_.size(); i-- > 0;) {
      carry = carry << 32 | left.words_[i];
      left.words_[i] = static_cast<uint32_t>(carry / 10);
      carry %= 10;
    }
    digits.push_back(static_cast<char>('0' + carry));
    left.trim();
  }
  if (negative_) digits.push_back('-');
  std::reverse(digits.begin(), digits.end());
  return digits;
}

Integer gcd(Integer a, Integer b) {
  a = a.abs();
  b = b.abs();
  while (!b.is_zero()) a = std::exchange(b, a % b);
  return a;
}

}  // namespace trireme::answers
