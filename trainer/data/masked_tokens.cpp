#include "trainer/data/masked_tokens.h"

#include <algorithm>

#include "runtime/base/error.h"
#include "trainer/chat/assistant_turns.h"
#include "trainer/text/tokenizer.h"

namespace trireme::data {
namespace {

std::string bytes_of(const std::vector<int32_t>& ids, const text::Tokenizer& tokenizer) {
  std::string bytes;
  for (const int32_t id : ids) bytes += tokenizer.bytes_of_token(id, /*skip_special=*/false);
  return bytes;
}

// Where places in a text are in the bytes of its tokens, which a normalizer may have changed.
class Places {
 public:
  Places(const std::string& text, std::string bytes, const text::Tokenizer& tokenizer)
      : text_(text), bytes_(std::move(bytes)), tokenizer_(tokenizer) {}

  size_t of(size_t at) const {
    if (bytes_ == text_) return at;
    const std::string before = bytes_of(tokenizer_.encode(text_.substr(0, at)), tokenizer_);
    if (!bytes_.starts_with(before))
      fail(ErrorCode::invalid_config,
           "the tokenizer's normalizer joins what stands before an assistant's turn, or behind it, with the "
           "turn: its tokens cannot be told apart");
    return before.size();
  }

 private:
  const std::string& text_;
  const std::string bytes_;
  const text::Tokenizer& tokenizer_;
};

}  // namespace

int64_t MaskedTokens::num_learned() const {
  return mask.empty() ? 0 : std::count(mask.begin() + 1, mask.end(), 1);
}

MaskedTokens mask_tokens(const chat::TurnsText& turns, const text::Tokenizer& tokenizer) {
  MaskedTokens tokens;
  tokens.ids = tokenizer.encode(turns.text);
  tokens.mask.assign(tokens.ids.size(), 0);
  const Places places(turns.text, bytes_of(tokens.ids, tokenizer), tokenizer);
  size_t token = 0, begin = 0;  // of the token, in the bytes of all
  for (const auto& turn : turns.turns) {
    const size_t from = places.of(turn.first), to = places.of(turn.second);
    for (; token < tokens.ids.size() && begin < to; ++token) {
      const size_t end = begin + tokenizer.bytes_of_token(tokens.ids[token], false).size();
      if (end > from) tokens.mask[token] = 1;
      begin = end;
    }
  }
  return tokens;
}

MaskedTokens prompt_and_response(const std::vector<int32_t>& prompt, const std::vector<int32_t>& response) {
  MaskedTokens tokens{prompt, {}};
  tokens.ids.insert(tokens.ids.end(), response.begin(), response.end());
  tokens.mask.assign(prompt.size(), 0);
  tokens.mask.resize(tokens.ids.size(), 1);
  return tokens;
}

MaskedTokens truncated(MaskedTokens tokens, int64_t length, const std::string& truncation) {
  const auto size = static_cast<int64_t>(tokens.ids.size());
  if (size > length) {
    TRIREME_CHECK(truncation == "left" || truncation == "right", "truncation: '{}'", truncation);
    const auto from = truncation == "left" ? size - length : 0;
    tokens.ids = {tokens.ids.begin() + from, tokens.ids.begin() + from + length};
    tokens.mask = {tokens.mask.begin() + from, tokens.mask.begin() + from + length};
  }
  while (!tokens.mask.empty() && tokens.mask.back() == 0) {
    tokens.mask.pop_back();
    tokens.ids.pop_back();
  }
  return tokens;
}

}  // namespace trireme::data
