// The order in which problems are taken: epoch by epoch, each epoch shuffled anew from the seed.
// There is no state, so a run that resumes needs only its step.
#pragma once

#include <cstdint>
#include <vector>

namespace trireme::data {

/// The places of step `step`'s problems (steps count from 0): batch_size numbers in [0, num_problems).
/// Each epoch takes every problem once; a batch may end one epoch and begin the next.
/// shuffle = false: in the order in which they were read. Cost: O(batch_size), whatever the step.
std::vector<int64_t> batch_indices(int64_t num_problems, int64_t batch_size, int64_t step, uint64_t seed,
                                   bool shuffle);

/// Where a permutation of [0, n), chosen by `key`, takes x.
int64_t permute(int64_t x, int64_t n, uint64_t key);

}  // namespace trireme::data
