// Sums of gradients whose bits depend on neither order nor grouping: every addend is put on a grid of fixed
// points and added as integers. The grid is the same for all, so nothing need be agreed on before.
//
// An element is low * 2^-60 + high * 2^-10, high being 0 for elements below 2^-11 (nearly all, in gradients
// of normalised losses). It is exact from 2^-36 on, and off by at most 2^-61 below. There is room for 8,192
// addends; an element may be as large as 2^40.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace trireme::sharding {

class ExactSum {
 public:
  ExactSum() = default;
  /// Zeros.
  explicit ExactSum(int64_t numel);

  int64_t numel() const { return low_.defined() ? low_.numel() : 0; }
  void zero();
  /// Adds `gradient`, fp32, [numel] or the first of them. A value that is not finite, or too large, spoils
  /// the sum: is_sound() is false from then on.
  void add(const at::Tensor& gradient);
  bool is_sound() const { return sound_; }
  void spoil() { sound_ = false; }

  /// int64, [numel]. high() may be undefined: zeros.
  at::Tensor& low() { return low_; }
  at::Tensor& high() { return high_; }
  /// So that high() is there.
  void need_high();

  /// The sum as fp32 into `to`, [numel] or the first of them.
  void read(const at::Tensor& to) const;

 private:
  at::Tensor low_, high_;
  bool sound_ = true;
};

/// The sum of squares of fp32 numbers as integers: low to high words of base 2^40, in units of 2^-80, so that
/// sums over ranks are sums of words. A number beyond 2^23 makes the value infinite.
struct ExactSquares {
  static constexpr int kWords = 5;  // the last one counts numbers that are too large
  int64_t words[kWords] = {};
  void add(const float* values, int64_t count);
  double value() const;
};

}  // namespace trireme::sharding
