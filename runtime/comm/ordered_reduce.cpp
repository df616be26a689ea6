#include "runtime/comm/ordered_reduce.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "runtime/base/error.h"

namespace trireme::comm {
namespace {

struct Bf16 {
  uint16_t bits;
};

template <typename Stored>
auto widen(Stored x) {
  if constexpr (std::is_same_v<Stored, Bf16>)
    return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16);
  else
    return x;
}

template <typename Stored, typename Wide>
Stored narrow(Wide x) {
  if constexpr (std::is_same_v<Stored, Bf16>) {
    const auto bits = std::bit_cast<uint32_t>(x);
    if (x != x) return {static_cast<uint16_t>(bits >> 16 | 0x40)};  // a NaN must not round to infinity
    return {static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
  } else {
    return x;
  }
}

template <ReduceOp kOp, typename Wide>
Wide combine(Wide a, Wide b) {
  if constexpr (kOp == ReduceOp::sum) {
    if constexpr (std::is_integral_v<Wide>) {
      using Unsigned = std::make_unsigned_t<Wide>;
      return static_cast<Wide>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
    } else {
      return a + b;
    }
  } else if constexpr (kOp == ReduceOp::max) {
    return b > a || b != b ? b : a;
  } else {
    return b < a || b != b ? b : a;
  }
}

template <ReduceOp kOp, typename Stored>
void reduce(std::span<const void* const> parts, void* out, int64_t count) {
  using Wide = decltype(widen(Stored{}));
  constexpr int64_t kBlock = 2048;  // the running sums stay in the first-level cache
  Wide sums[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t n = std::min(kBlock, count - begin);
    const Stored* first = static_cast<const Stored*>(parts[0]) + begin;
    for (int64_t i = 0; i < n; ++i) sums[i] = widen(first[i]);
    for (size_t p = 1; p < parts.size(); ++p) {
      const Stored* part = static_cast<const Stored*>(parts[p]) + begin;
      for (int64_t i = 0; i < n; ++i) sums[i] = combine<kOp>(sums[i], widen(part[i]));
    }
    Stored* to = static_cast<Stored*>(out) + begin;
    for (int64_t i = 0; i < n; ++i) to[i] = narrow<Stored>(sums[i]);
  }
}

template <typename Stored>
void reduce(std::span<const void* const> parts, void* out, int64_t count, ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return reduce<ReduceOp::sum, Stored>(parts, out, count);
    case ReduceOp::max:
      return reduce<ReduceOp::max, Stored>(parts, out, count);
    case ReduceOp::min:
      return reduce<ReduceOp::min, Stored>(parts, out, count);
  }
}

}  // namespace

void reduce_in_order(std::span<const void* const> parts, void* out, int64_t count, DType dtype, ReduceOp op) {
  TRIREME_CHECK(!parts.empty(), "nothing to reduce");
  switch (dtype) {
    case DType::u8:
      return reduce<uint8_t>(parts, out, count, op);
    case DType::i32:
      return reduce<int32_t>(parts, out, count, op);
    case DType::i64:
      return reduce<int64_t>(parts, out, count, op);
    case DType::bf16:
      return reduce<Bf16>(parts, out, count, op);
    case DType::f32:
      return reduce<float>(parts, out, count, op);
    case DType::f64:
      return reduce<double>(parts, out, count, op);
  }
}

}  // namespace trireme::comm
