// A preference pair as tokens: the prompt that both answers follow, and the two answers.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/data/data_config.h"
#include "trainer/data/problem.h"

namespace trireme::text {
class Tokenizer;
}

namespace trireme::data {

struct PairTokens {
  std::vector<int32_t> prompt, chosen, rejected;  // none of them empty
};

/// Prompt and answer are encoded as one text, and an answer begins where its tokens leave the prompt's: as
/// TRL has it. Plain text gets an end-of-text token. Above data.max_prompt_length a prompt is
/// cut as data.truncation says; above data.max_response_length answers lose their end. Any thread.
PairTokens pair_tokens(const Problem& problem, const text::Tokenizer& tokenizer, const DataConfig& config);

}  // namespace trireme::data
