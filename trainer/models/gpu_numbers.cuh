// Numbers in kernels: fp32 arithmetic on fp32 or bf16 in memory. Every multiply-add is written out and the
// files are compiled without contraction, so a kernel gives the same bits from any compiler.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "runtime/comm/gpu_device.h"

namespace trireme::gpu {

using Bf16 = uint16_t;  // its bits

__device__ inline int least(int a, int b) {
  return a < b ? a : b;
}

__device__ inline float of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
__device__ inline uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

__device__ inline float widened(float value) {
  return value;
}
__device__ inline float widened(Bf16 value) {
  return of_bits(static_cast<uint32_t>(value) << 16);
}
/// To nearest, ties to even; NaN stays NaN.
template <typename T>
__device__ inline T narrowed(float value);
template <>
__device__ inline float narrowed<float>(float value) {
  return value;
}
template <>
__device__ inline Bf16 narrowed<Bf16>(float value) {
  const uint32_t bits = bits_of(value);
  if (value != value) return 0x7fc0;
  return static_cast<Bf16>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/// `count` neighbours that are read and written as one word.
template <typename T, int count>
struct alignas(sizeof(T) * count) Pack {
  T at[count];
};
template <int count, typename T>
__device__ inline Pack<T, count> load_pack(const T* from) {
  return *reinterpret_cast<const Pack<T, count>*>(from);
}
template <int count, typename T>
__device__ inline void store_pack(T* to, const Pack<T, count>& pack) {
  *reinterpret_cast<Pack<T, count>*>(to) = pack;
}

/// exp within two units in the last place for x <= 88; 0 below -87, where full precision ends. NaN stays NaN.
__device__ inline float exp_of(float x) {
  if (x < -87.0f) return 0.0f;
  const float n = fmaf(x, 1.44269504f, 12582912.0f) - 12582912.0f;
  const float r = fmaf(n, -1.42860677e-6f, fmaf(n, -0.693145752f, x));
  float p = 1.3814467e-3f;
  p = fmaf(p, r, 8.368781e-3f);
  p = fmaf(p, r, 4.1668393e-2f);
  p = fmaf(p, r, 1.666652e-1f);
  p = fmaf(p, r, 0.49999994f);
  p = fmaf(p, r, 1.0f);
  p = fmaf(p, r, 1.0f);
  if (!(x <= 88.0f)) return x > 88.0f ? INFINITY : x;
  return p * of_bits(static_cast<uint32_t>(static_cast<int32_t>(n) + 127) << 23);
}

// One fixed tree over a team's 32 values; every lane gets the result.
template <typename T>
__device__ inline T sum_of_team(T value) {
  for (int mask = kTeam / 2; mask > 0; mask /= 2) value += from_lane_xor(value, mask);
  return value;
}
__device__ inline float max_of_team(float value) {
  for (int mask = kTeam / 2; mask > 0; mask /= 2) value = fmaxf(value, from_lane_xor(value, mask));
  return value;
}
/// The sum of the values of all lanes up to this one.
template <typename T>
__device__ inline T running_sum(T value) {
  for (int step = 1; step < kTeam; step *= 2) {
    const T before = from_lane(value, lane() >= step ? lane() - step : lane());
    if (lane() >= step) value += before;
  }
  return value;
}
/// The sum over a block, for all its threads; `scratch` holds one value a team. All threads call it.
__device__ inline float sum_of_block(float value, float* scratch) {
  value = sum_of_team(value);
  sync_block();  // an earlier sum has been read
  if (lane() == 0) scratch[team()] = value;
  sync_block();
  float total = 0.0f;
  for (int t = 0; t < teams_of_block(); ++t) total += scratch[t];
  return total;
}

}  // namespace trireme::gpu
