// Reads JSON files of a tokenizer. Nearly all of a tokenizer.json is two long lists, the vocabulary and the
// merges: they are taken as the file is read, without a tree of a million values in between.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::text {

struct VocabularyEntry {
  std::string_view token;
  int64_t id;
};
struct MergeEntry {
  std::string_view left, right;
};

struct TokenizerJson {
  nlohmann::json rest = nlohmann::json::object();  // all but model.vocab and model.merges; always an object
  bool has_vocabulary = false, has_merges = false;
  std::vector<VocabularyEntry> vocabulary;  // in the file's order
  std::vector<MergeEntry> merges;
  std::vector<std::string> mistakes;  // "model: ...", at most one for each list
  std::unique_ptr<char[]> texts;      // what the views above point to
};

/// `name` is the file's, for messages. Throws invalid_config, with the line, if `text` is not an object in
/// JSON or is nested absurdly deep.
TokenizerJson parse_tokenizer_json(const std::string& name, std::string_view text);
/// An object without such lists.
nlohmann::json parse_json_object(const std::string& name, std::string_view text);

/// The member, or null if there is none.
const nlohmann::json& member(const nlohmann::json& object, const char* key);
bool flag(const nlohmann::json& object, const char* key, bool otherwise = false);
/// "" if there is no such text.
std::string text(const nlohmann::json& object, const char* key);
/// A value for a message, cut if it is long.
std::string shown(const nlohmann::json& value);

/// Far above any vocabulary: a larger id is a mistake in the file.
inline constexpr int64_t kMaxTokenId = (1 << 20) - 1;
bool is_token_id(const nlohmann::json& value);

}  // namespace trireme::text
