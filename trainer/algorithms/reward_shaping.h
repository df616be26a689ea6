// What an algorithm makes of rewards before it compares them: DAPO's overlong penalty, and which groups have
// something to compare. Torch-free.
#pragma once

#include <cstdint>
#include <span>

#include "trainer/algorithms/algorithm_config.h"

namespace trireme::algorithms {

/// Zero or less, for a response of `length` tokens: falls linearly over the buffer's tokens before
/// `max_response_length`, at which it is -penalty_factor.
/// Source: DAPO, arXiv:2503.14476, eq. 13.
double overlong_penalty(int64_t length, int64_t max_response_length, const OverlongBuffer& config);

/// Whether a group's responses were judged differently. A lone response is always kept: it is compared with
/// nothing. Source: DAPO, arXiv:2503.14476, section 3.2.
bool tells_apart(std::span<const double> judgements);

}  // namespace trireme::algorithms
