// What supervised fine-tuning learns of problems, as tokens, made once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/chat/chat_template.h"
#include "trainer/data/problem.h"

namespace trireme::text {
class Tokenizer;
}

namespace trireme::data {

/// Of one example, all that is read and learned.
struct LengthLimit {
  int64_t max_length = 0;  // tokens
  std::string truncation;  // of longer ones: error | left | right
};

struct LearnedCount {
  int64_t cut = 0;      // texts longer than the limit
  int64_t dropped = 0;  // problems of which then nothing was left to learn
};

/// Fills Problem::learned, on all CPUs of this process, of problems whose prompts are encoded: the turns of a
/// conversation, several texts where the template rewrites earlier turns; else the response behind the
/// prompt, and what ends a text. `chat_template` may be null where there is no conversation. Throws
/// invalid_config naming the places of all that are too long (truncation "error") or whose assistant's turns
/// cannot be found, and where nothing is left.
LearnedCount encode_learned(std::vector<Problem>& problems, const text::Tokenizer& tokenizer,
                            const chat::ChatTemplate* chat_template, const LengthLimit& limit);

}  // namespace trireme::data
