// Ids to text, id by id, as they are generated: whole characters only.
#pragma once

#include <cstdint>
#include <string>

#include "trainer/text/tokenizer.h"

namespace trireme::text {

/// One stream of text. The pieces, put together, are what Tokenizer::decode makes of all the ids.
class StreamDecoder {
 public:
  /// The tokenizer must outlive the decoder.
  explicit StreamDecoder(const Tokenizer& tokenizer, bool skip_special = true)
      : tokenizer_(tokenizer), skip_special_(skip_special) {}

  /// The text that `id` completes, in UTF-8: empty while the bytes so far end within a character.
  std::string add(int32_t id);
  /// The rest: U+FFFD if the ids end within a character. A new text may begin afterwards.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  const bool skip_special_;
  std::string unfinished_;  // at most 3 bytes
};

}  // namespace trireme::text
