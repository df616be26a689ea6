// What collectives must deliver: each rank's data by formula, and reductions element by element in rank
// order.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "runtime/comm/communicator.h"

namespace trireme::comm::conformance {

struct Bf16 {
  uint16_t bits;
  bool operator==(const Bf16&) const = default;
};

inline float to_float(Bf16 x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16);
}

// The nearer of the two neighbours, by distance; the even one in the middle.
inline Bf16 to_bf16(float x) {
  const Bf16 low{static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16)};
  const Bf16 high{static_cast<uint16_t>(low.bits + 1)};
  const double below = std::fabs(static_cast<double>(x) - to_float(low));
  const double above = std::fabs(static_cast<double>(to_float(high)) - x);
  if (below != above) return below < above ? low : high;
  return low.bits % 2 == 0 ? low : high;
}

template <typename T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, uint8_t>) return DType::u8;
  if constexpr (std::is_same_v<T, int32_t>) return DType::i32;
  if constexpr (std::is_same_v<T, int64_t>) return DType::i64;
  if constexpr (std::is_same_v<T, Bf16>) return DType::bf16;
  if constexpr (std::is_same_v<T, float>) return DType::f32;
  if constexpr (std::is_same_v<T, double>) return DType::f64;
}

// Element i of rank r's data: signs and magnitudes vary, so that another order of adding shows.
template <typename T>
T element(int rank, int64_t i) {
  uint64_t h = (static_cast<uint64_t>(rank) << 40) + static_cast<uint64_t>(i) + 1;
  h *= 0x9e3779b97f4a7c15ull;
  h ^= h >> 29;
  h *= 0xbf58476d1ce4e5b9ull;
  h ^= h >> 32;
  if constexpr (std::is_integral_v<T>) return static_cast<T>(h);
  const double value =
      (static_cast<double>(h % 20001) - 10000.0) / 7.0 * static_cast<double>(1 << (h >> 40 & 15)) / 256.0;
  if constexpr (std::is_same_v<T, Bf16>)
    return to_bf16(static_cast<float>(value));
  else if constexpr (std::is_floating_point_v<T>)
    return static_cast<T>(value);
}

template <typename T>
std::vector<T> elements(int rank, int64_t count, int64_t from = 0) {
  std::vector<T> data(count);
  for (int64_t i = 0; i < count; ++i) data[i] = element<T>(rank, from + i);
  return data;
}

template <typename T>
T combine_all(const std::vector<T>& values, ReduceOp op) {
  const auto pick = [&](auto a, auto b) { return op == ReduceOp::max ? (b > a ? b : a) : (b < a ? b : a); };
  if constexpr (std::is_same_v<T, Bf16>) {
    float sum = to_float(values[0]);
    for (size_t r = 1; r < values.size(); ++r)
      sum = op == ReduceOp::sum ? sum + to_float(values[r]) : pick(sum, to_float(values[r]));
    return to_bf16(sum);
  } else if constexpr (std::is_integral_v<T>) {
    uint64_t sum = 0;
    T best = values[0];
    for (const T value : values) {
      sum += static_cast<uint64_t>(value);
      best = pick(best, value);
    }
    return op == ReduceOp::sum ? static_cast<T>(sum) : best;
  } else {
    T sum = values[0];
    for (size_t r = 1; r < values.size(); ++r)
      sum = op == ReduceOp::sum ? sum + values[r] : pick(sum, values[r]);
    return sum;
  }
}

// Rank order, one element at a time.
template <typename T>
std::vector<T> reduced(int num_ranks, int64_t count, ReduceOp op, int64_t from = 0) {
  std::vector<T> result(count);
  std::vector<T> values(num_ranks);
  for (int64_t i = 0; i < count; ++i) {
    for (int r = 0; r < num_ranks; ++r) values[r] = element<T>(r, from + i);
    result[i] = combine_all(values, op);
  }
  return result;
}

}  // namespace trireme::comm::conformance
