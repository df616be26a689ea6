#include "trainer/data/order.h"

#include <algorithm>
#include <limits>

#include "runtime/base/counter_random.h"
#include "runtime/base/error.h"

namespace trireme::data {
namespace {

// Rounds of swap-or-not. Its distance from a random permutation shrinks by a constant factor per
// round, from about sqrt(n): 96 rounds leave nothing to see for any data set that fits a disk.
constexpr uint64_t kRounds = 96;
constexpr uint64_t kOrderStream = 0x6f72646572;  // "order"

}  // namespace

// "Swap or not" (Hoang, Morris, Rogaway, CRYPTO 2012): each round pairs every x with K - x (mod n) and
// swaps the pair or leaves it, by one random bit that both of the pair compute alike. Works for every n.
int64_t permute(int64_t x, int64_t n, uint64_t key) {
  TRIREME_CHECK(n > 0 && x >= 0 && x < n, "permute: {} is not in [0, {})", x, n);
  const auto size = static_cast<uint64_t>(n);
  auto at = static_cast<uint64_t>(x);
  for (uint64_t round = 0; round < kRounds; ++round) {
    const uint64_t pivot = below(random_bits(key, round, 0), size);
    const uint64_t partner = pivot >= at ? pivot - at : pivot + size - at;
    const uint64_t swap_bit = random_bits(key, round, 1 + std::max(at, partner)) >> 63;
    if (swap_bit != 0) at = partner;
  }
  return static_cast<int64_t>(at);
}

std::vector<int64_t> batch_indices(int64_t num_problems, int64_t batch_size, int64_t taken, uint64_t seed,
                                   bool shuffle) {
  TRIREME_CHECK(num_problems > 0 && batch_size > 0 && taken >= 0,
                "batch_indices: {} problems, batches of {}, {} taken", num_problems, batch_size, taken);
  TRIREME_CHECK(taken <= std::numeric_limits<int64_t>::max() - batch_size,
                "batch_indices: {} taken overflows", taken);
  std::vector<int64_t> indices(static_cast<size_t>(batch_size));
  for (int64_t i = 0; i < batch_size; ++i) {
    const int64_t epoch = (taken + i) / num_problems, place = (taken + i) % num_problems;
    const uint64_t key = random_bits(seed, kOrderStream, static_cast<uint64_t>(epoch));
    indices[static_cast<size_t>(i)] = shuffle ? permute(place, num_problems, key) : place;
  }
  return indices;
}

}  // namespace trireme::data
