// Random numbers without state: each is a function of a seed, a stream and a counter, so it does not
// depend on what was drawn before, nor by whom.
#pragma once

#include <cstdint>

namespace trireme {

/// The finaliser of splitmix64: a bijection of 64 bits in which every input bit reaches every output bit.
constexpr uint64_t mix_bits(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

constexpr uint64_t random_bits(uint64_t seed, uint64_t stream, uint64_t counter) {
  return mix_bits(mix_bits(mix_bits(seed) ^ stream) ^ counter);
}

__extension__ using Product128 = unsigned __int128;

/// Spreads 64 random bits over [0, n); the bias is below n / 2^64.
constexpr uint64_t below(uint64_t bits, uint64_t n) {
  return static_cast<uint64_t>((Product128{bits} * n) >> 64);
}

}  // namespace trireme
