// When a response ends: at a stop token, or with the token that completes a stop string. A string may begin
// within one token and end within another; what counts are the bytes that the tokens add to the text, so a
// response ends at the same place whatever it was computed with. Torch-free.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "trainer/rollout/request.h"

namespace trireme::rollout {

/// The bytes that a token adds to a text: perhaps a part of a character, perhaps none.
using TokenText = std::function<std::string_view(int32_t token)>;

class StopCondition {
 public:
  /// Tokens outside the vocabulary can never be drawn and are left out.
  StopCondition(const std::vector<int32_t>& stop_ids, int64_t vocab_size);

  /// Stop strings need it.
  void set_token_text(TokenText token_text) { token_text_ = std::move(token_text); }
  bool has_token_text() const { return token_text_ != nullptr; }

  /// True if the response ends with its last token; then its stop_string and text_length are set.
  bool is_met(const std::vector<std::string>& stop, Response& response) const;

 private:
  bool ends_with_string(const std::vector<std::string>& stop, Response& response) const;

  std::vector<bool> is_stop_token_;
  TokenText token_text_;
};

}  // namespace trireme::rollout
