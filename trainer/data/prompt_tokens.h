// Problems' prompts as the tokens that rollout, evaluation and SFT read, made once.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/data/data_config.h"
#include "trainer/data/problem.h"

namespace trireme::text {
class Tokenizer;
}

namespace trireme::data {

/// Fills prompt_ids, on all CPUs of this process. Prompts above data.max_prompt_length tokens are dropped if
/// data.filter_overlong_prompts, else cut as data.truncation says: invalid_config naming their places for
/// "error", and for a list of which nothing is left. Returns how many were dropped or cut.
int64_t encode_prompts(std::vector<Problem>& problems, const text::Tokenizer& tokenizer,
                       const DataConfig& config);

/// `ids` cut to `length`: "left" keeps the end, "right" the beginning, "middle" the two ends (of an odd
/// length the end has one more).
std::vector<int32_t> truncated(const std::vector<int32_t>& ids, int64_t length,
                               const std::string& truncation);

/// A hash of all that training sees of the problems, in their order.
uint64_t fingerprint(const std::vector<Problem>& problems);

}  // namespace trireme::data
