// What a response is worth apart from its answer: its form, its length, its repetitions. Pure functions, each
// the value of one component of the reward; their weights are the configuration's.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/rewards/reward_config.h"

namespace trireme::rewards {

/// Whether a response is made of these elements and nothing but white space between them: each <tag>, its
/// text and
/// </tag> once, in this order; none of them empty. A first <tag> that the prompt has already opened may be
/// missing.
bool has_tags(std::string_view response, std::span<const std::string> tags);

/// Minus the share of a response's n-grams of words that occurred before in it: 0 without repetitions, near
/// -1 where all is repeated; 0 for fewer than n words. Source: "Demystifying Long Chain-of-Thought Reasoning
/// in LLMs", arXiv:2502.03373, section 4.3, without its dependence on the policy.
double repetition(std::string_view response, int64_t ngram_size);

/// A reward that goes along a half cosine from the empty response to one of `max_tokens`: from correct_short
/// to correct_long for right ones, from wrong_short to wrong_long for wrong ones. Source: ibid., section 4.2.
double cosine_length(bool correct, int64_t tokens, int64_t max_tokens, const CosineConfig& config);

}  // namespace trireme::rewards
