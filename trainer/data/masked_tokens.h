// Tokens of which a part is learned: what supervised fine-tuning and preferences are computed on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme::chat {
struct TurnsText;
}

namespace trireme::text {
class Tokenizer;
}

namespace trireme::data {

struct MaskedTokens {
  std::vector<int32_t> ids;
  std::vector<uint8_t> mask;  // one an id; 1: learned

  /// Ids that are learned. The first id has nothing before it to be predicted from, and never is.
  int64_t num_learned() const;
};

/// The tokens of the text as a whole, as transformers has them; learned are those with a byte in a turn.
/// Throws invalid_config where a normalizer of the tokenizer's moves text across a turn's beginning or end.
MaskedTokens mask_tokens(const chat::TurnsText& turns, const text::Tokenizer& tokenizer);

/// A prompt with its response, which is learned.
MaskedTokens prompt_and_response(const std::vector<int32_t>& prompt, const std::vector<int32_t>& response);

/// Cut to `length`: "right" keeps the beginning, "left" the end. Ids behind the last that is learned go in
/// any case: nothing is computed from them.
MaskedTokens truncated(MaskedTokens tokens, int64_t length, const std::string& truncation);

}  // namespace trireme::data
