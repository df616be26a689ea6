// Text to token ids and back: byte-level BPE, as Hugging Face's tokenizer.json describes it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::text {

struct TokenizerParts;  // tokenizer.cpp

/// Immutable; every call may be made from any thread.
class Tokenizer {
 public:
  /// Reads tokenizer.json, and what else there is of tokenizer_config.json and special_tokens_map.json (added
  /// tokens and their roles), generation_config.json and config.json (what ends a text). As transformers
  /// does, it takes no notice of add_bos_token and add_eos_token (post_processor decides), truncation and
  /// padding. Throws invalid_config if a file is missing, malformed or asks for something that is not
  /// supported, named in the message.
  static std::shared_ptr<const Tokenizer> from_folder(const std::string& folder);

  /// No vocabulary needed: id = byte for 0..255, then <|endoftext|> 256 (end, padding), <|im_start|> 257,
  /// <|im_end|> 258.
  static std::shared_ptr<const Tokenizer> bytes();

  ~Tokenizer();

  /// Every text has ids; none are added around it (beginning-of-text tokens are a chat template's affair).
  /// parse_special = false: text that reads like a special token, "<|im_end|>", stays text. Throws
  /// invalid_config if a regular expression of the tokenizer's own needs absurdly many steps.
  std::vector<int32_t> encode(std::string_view text, bool parse_special = true) const;

  /// The ids of one text among the special tokens that the tokenizer's post_processor puts around it.
  std::vector<int32_t> with_special_tokens(std::vector<int32_t> ids) const;

  /// Always UTF-8: bytes of a cut or malformed character become U+FFFD. skip_special leaves out the special
  /// tokens. An id without a text, such as those that fill an embedding up to a round number, is skipped.
  std::string decode(std::span<const int32_t> ids, bool skip_special = true) const;
  /// What one id adds to that text: perhaps a part of a character. Valid as long as the tokenizer.
  std::string_view bytes_of_token(int32_t id, bool skip_special = true) const;

  /// The largest id + 1. A model's embedding may have more rows.
  int32_t vocab_size() const;
  int32_t eos_id() const;
  /// The ids that end a response; eos_id() is the first.
  const std::vector<int32_t>& stop_ids() const;
  /// For a place that is never read; eos_id() where the files name none.
  int32_t pad_id() const;

  /// Writes what Hugging Face's AutoTokenizer loads; for a tokenizer from a folder, copies of its files.
  /// The folder must exist. Throws io.
  void save(const std::string& folder) const;

 private:
  explicit Tokenizer(std::unique_ptr<const TokenizerParts> parts);
  std::unique_ptr<const TokenizerParts> parts_;
};

}  // namespace trireme::text
