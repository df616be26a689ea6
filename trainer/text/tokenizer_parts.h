// What a tokenizer consists of, read from the files of a Hugging Face folder.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trainer/text/added_tokens.h"
#include "trainer/text/byte_pairs.h"
#include "trainer/text/tokenizer_stages.h"

namespace trireme::text {

struct TokenizerParts {
  TokenizerStages stages;
  std::optional<BytePairs> pairs;
  AddedTokens verbatim;               // looked for in the text as it is
  AddedTokens normalized;             // looked for in the normalised text
  std::vector<std::string> contents;  // id -> bytes; empty for an unused id
  std::vector<bool> is_special;
  int32_t eos_id = -1, pad_id = -1;
  std::vector<int32_t> stop_ids;
  std::map<std::string, std::string> files;  // name -> content: what save() writes
};

/// `files`: name -> content of the files that exist among kTokenizerFiles and kModelFiles; `folder` is for
/// messages. Throws invalid_config with all that is missing, malformed or not supported.
TokenizerParts read_tokenizer_parts(std::map<std::string, std::string> files, const std::string& folder);

inline constexpr const char* kTokenizerFiles[] = {
    "tokenizer.json",    "tokenizer_config.json", "special_tokens_map.json",
    "added_tokens.json", "chat_template.jinja",   "vocab.json",
    "merges.txt"};
/// Read for the ids that end a text, not saved: they belong to the model.
inline constexpr const char* kModelFiles[] = {"generation_config.json", "config.json"};

}  // namespace trireme::text
