#include "trainer/sharding/exact_sum.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>

#include "runtime/base/error.h"

namespace trireme::sharding {
namespace {

constexpr double kLowUnit = 0x1p-60, kHighUnit = 0x1p-10;
constexpr float kLargest = 0x1p40f, kLeastHigh = 0x1p-11f;
constexpr int64_t kGrain = 1 << 16;
constexpr int64_t kRun = 1 << 11;  // looked at for large ones, then added while it is in the cache

at::Tensor zeros(int64_t numel) {
  return at::zeros({numel}, at::kLong);
}

}  // namespace

ExactSum::ExactSum(int64_t numel) : low_(zeros(numel)) {}

void ExactSum::zero() {
  sound_ = true;
  low_.zero_();
  high_ = at::Tensor();
}

void ExactSum::need_high() {
  if (!high_.defined()) high_ = zeros(low_.numel());
}

namespace {

// Sizes as whole numbers: they are ordered alike, and a NaN is beyond all.
int32_t largest_size(const float* values, int64_t count) {
  int32_t largest = 0;
  for (int64_t i = 0; i < count; ++i)
    largest = std::max(largest, std::bit_cast<int32_t>(values[i]) & 0x7fffffff);
  return largest;
}

// Below kLeastHigh a value has less than 50 bits before the point of its unit: added to a number that fills a
// double's digits, its whole part stands in their last bits, rounded to nearest even. Vectors can do that.
void add_small(const float* values, int64_t count, int64_t* low) {
  constexpr double kFull = 0x1.8p52;
  for (int64_t i = 0; i < count; ++i)
    low[i] += std::bit_cast<int64_t>(static_cast<double>(values[i]) * (1 / kLowUnit) + kFull) -
              std::bit_cast<int64_t>(kFull);
}

void add_any(const float* values, int64_t count, int64_t* low, int64_t* high) {
  for (int64_t i = 0; i < count; ++i) {
    double rest = values[i];
    if (std::fabs(values[i]) >= kLeastHigh) {
      const double whole = std::rint(rest / kHighUnit);
      high[i] += static_cast<int64_t>(whole);
      rest -= whole * kHighUnit;
    }
    low[i] += static_cast<int64_t>(std::rint(rest / kLowUnit));
  }
}

}  // namespace

void ExactSum::add(const at::Tensor& gradient) {
  const at::Tensor host = gradient.cpu();
  const auto* values = host.const_data_ptr<float>();
  const int64_t count = host.numel();
  TRIREME_CHECK(count <= low_.numel(), "{} addends for a sum of {}", count, low_.numel());
  auto* low = low_.mutable_data_ptr<int64_t>();
  const int64_t num_runs = (count + kRun - 1) / kRun;
  const auto length = [&](int64_t run) { return std::min(kRun, count - run * kRun); };
  std::vector<char> is_large(static_cast<size_t>(num_runs));
  std::atomic<bool> large{false}, sound{true};
  at::parallel_for(0, num_runs, kGrain / kRun, [&](int64_t begin, int64_t end) {
    for (int64_t run = begin; run < end; ++run) {
      const int64_t first = run * kRun;
      const int32_t largest = largest_size(values + first, length(run));
      if (largest < std::bit_cast<int32_t>(kLeastHigh)) {
        add_small(values + first, length(run), low + first);
        continue;
      }
      is_large[static_cast<size_t>(run)] = 1;
      large = true;
      if (largest > std::bit_cast<int32_t>(kLargest)) sound = false;
    }
  });
  if (!sound) sound_ = false;
  if (!large || !sound) return;
  need_high();
  auto* high = high_.mutable_data_ptr<int64_t>();
  at::parallel_for(0, num_runs, kGrain / kRun, [&](int64_t begin, int64_t end) {
    for (int64_t run = begin; run < end; ++run)
      if (is_large[static_cast<size_t>(run)])
        add_any(values + run * kRun, length(run), low + run * kRun, high + run * kRun);
  });
}

void ExactSum::read(const at::Tensor& to) const {
  const at::Tensor host = to.is_cpu() ? to : at::zeros({to.numel()}, at::kFloat);
  auto* values = host.mutable_data_ptr<float>();
  const auto* low = low_.const_data_ptr<int64_t>();
  const auto* high = high_.defined() ? high_.const_data_ptr<int64_t>() : nullptr;
  at::parallel_for(0, to.numel(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      values[i] = static_cast<float>(static_cast<double>(low[i]) * kLowUnit +
                                     (high ? static_cast<double>(high[i]) * kHighUnit : 0.0));
  });
  if (!host.is_same(to)) at::Tensor(to).copy_(host);
}

void ExactSquares::add(const float* values, int64_t count) {
  __extension__ using Wide = unsigned __int128;
  constexpr Wide kBase = Wide{1} << 40;
  Wide sum = 0;
  const auto spill = [&] {
    for (int w = 0; w + 1 < kWords; ++w) {
      words[w] += static_cast<int64_t>(sum % kBase);
      sum /= kBase;
    }
  };
  for (int64_t i = 0; i < count; ++i) {
    if (!(std::fabs(values[i]) < 0x1p23f)) {
      ++words[kWords - 1];
      continue;
    }
    // A square has 48 bits, exact in a double; in units of 2^-80 it is below 2^126.
    const double square = static_cast<double>(values[i]) * static_cast<double>(values[i]);
    int exponent = 0;
    const auto digits = static_cast<uint64_t>(std::ldexp(std::frexp(square, &exponent), 53));
    const int shift = exponent - 53 + 80;
    if (shift >= 0)
      sum += static_cast<Wide>(digits) << shift;
    else if (shift > -64)
      sum += digits >> -shift;
    if (sum >> 126) spill();
  }
  spill();
}

double ExactSquares::value() const {
  if (words[kWords - 1] > 0) return std::numeric_limits<double>::infinity();
  double sum = 0;
  for (int w = kWords - 2; w >= 0; --w) sum += std::ldexp(static_cast<double>(words[w]), 40 * w - 80);
  return sum;
}

}  // namespace trireme::sharding
