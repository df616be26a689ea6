// Philox4x32-10: random numbers computed from a counter, so a number depends on what it is for and
// never on what was drawn before it. Torch-free.
// Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#pragma once

#include <array>
#include <cstdint>

namespace trireme::rollout {

using PhiloxKey = std::array<uint32_t, 2>;
using PhiloxBlock = std::array<uint32_t, 4>;

constexpr PhiloxBlock philox4x32(PhiloxBlock counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t first = uint64_t{0xD2511F53} * counter[0];
    const uint64_t second = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(second >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(second),
               static_cast<uint32_t>(first >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(first)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

/// The key of all draws of one (seed, step).
constexpr PhiloxKey sampling_key(uint64_t seed, int64_t step) {
  const auto s = static_cast<uint64_t>(step);
  // The last counter word sets this use of the seed apart from others.
  const PhiloxBlock block =
      philox4x32({static_cast<uint32_t>(s), static_cast<uint32_t>(s >> 32), 0, 0x73616d70},
                 {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return {block[0], block[1]};
}

/// The number in [0, 1), of 53 bits, that chooses token `position` of the response.
constexpr double sampling_uniform(PhiloxKey key, int64_t request_id, int64_t sample, int64_t position) {
  const auto id = static_cast<uint64_t>(request_id);
  const PhiloxBlock block = philox4x32({static_cast<uint32_t>(position), static_cast<uint32_t>(sample),
                                        static_cast<uint32_t>(id), static_cast<uint32_t>(id >> 32)},
                                       key);
  const uint64_t bits = (uint64_t{block[0]} << 21) | (block[1] >> 11);
  return static_cast<double>(bits) * 0x1p-53;
}

}  // namespace trireme::rollout
