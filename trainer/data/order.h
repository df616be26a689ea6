// The order in which problems are taken: epoch by epoch, each epoch shuffled anew from the seed.
// There is no state: a run that resumes needs only to know how many it has taken.
#pragma once

#include <cstdint>
#include <vector>

namespace trireme::data {

/// The places of the next `batch_size` problems after `taken` of them: numbers in [0, num_problems).
/// Each epoch takes every problem once; a batch may end one epoch and begin the next.
/// shuffle = false: in the order in which they were read. Cost: O(batch_size), however many were taken.
std::vector<int64_t> batch_indices(int64_t num_problems, int64_t batch_size, int64_t taken, uint64_t seed,
                                   bool shuffle);

/// Where a permutation of [0, n), chosen by `key`, takes x.
int64_t permute(int64_t x, int64_t n, uint64_t key);

}  // namespace trireme::data
