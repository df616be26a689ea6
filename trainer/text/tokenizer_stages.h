// What happens around the merging of byte pairs, as a tokenizer.json says: its normalizer, pre_tokenizer and
// post_processor.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "runtime/base/error.h"
#include "trainer/text/word_splitter.h"

namespace trireme::text {

struct TokenizerStages {
  static constexpr size_t kNone = ~size_t{0};

  bool nfc = false;
  std::vector<std::unique_ptr<WordSplitter>> splitters;  // each cuts the words of the one before
  size_t space_before =
      kNone;  // before this splitter (there may be none), a word is made to begin with a space
  std::vector<int32_t> before, after;  // the special tokens around one text

  /// Appends the words of `text` to `words`, each by a call of take(word).
  template <typename Take>
  void for_each_word(std::string_view text, const Take& take, size_t stage = 0) const;
};

/// Adds what is malformed or not supported to `mistakes`.
TokenizerStages read_tokenizer_stages(const nlohmann::json& tokenizer, Mistakes& mistakes);

template <typename Take>
void TokenizerStages::for_each_word(std::string_view text, const Take& take, size_t stage) const {
  if (stage == space_before && !text.starts_with(' ')) {
    const std::string spaced = " " + std::string(text);
    return for_each_word(spaced, take, stage);
  }
  if (stage == splitters.size()) return take(text);
  std::vector<std::string_view> words;
  splitters[stage]->split(text, words);
  for (const std::string_view word : words) for_each_word(word, take, stage + 1);
}

}  // namespace trireme::text
