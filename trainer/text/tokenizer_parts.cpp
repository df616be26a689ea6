#include "trainer/text/tokenizer_parts.h"

#include <algorithm>
#include <array>
#include <set>
#include <unordered_map>
#include <utility>

#include "runtime/base/error.h"
#include "trainer/text/byte_alphabet.h"
#include "trainer/text/tokenizer_json.h"
#include "trainer/text/tokenizer_vocabulary.h"
#include "trainer/text/unicode.h"
#include "trainer/text/utf8.h"

namespace trireme::text {
namespace {

using Json = nlohmann::json;

class PartsReader {
 public:
  PartsReader(std::map<std::string, std::string> files, const std::string& folder) : folder_(folder) {
    parts_.files = std::move(files);
  }

  TokenizerParts read() {
    read_json();
    mistakes_.throw_if_any(heading());
    attempt([&] { parts_.stages = read_tokenizer_stages(tokenizer_.rest, mistakes_); });
    attempt([&] { read_model(member(tokenizer_.rest, "model")); });
    if (vocabulary_) {
      attempt([&] { read_added_tokens(); });
      read_roles();
      check_ids_around_a_text();
    }
    mistakes_.throw_if_any(heading());
    for (const char* name : kModelFiles) parts_.files.erase(name);
    return std::move(parts_);
  }

 private:
  std::string heading() const { return fmt::format("the tokenizer in {} cannot be used:", folder_); }
  void add(const std::string& where, const std::string& what) {
    mistakes_.add("tokenizer.json: " + where, shortened(what));
  }

  template <typename Read>
  void attempt(const Read& read) {
    try {
      read();
    } catch (const Error& error) {
      mistakes_.add("", shortened(error.message(), 1000));
    }
  }

  void read_json() {
    const auto tokenizer = parts_.files.find("tokenizer.json");
    if (tokenizer == parts_.files.end())
      mistakes_.add("", "tokenizer.json is missing");
    else
      attempt([&] { tokenizer_ = parse_tokenizer_json("tokenizer.json", tokenizer->second); });
    config_ = parse("tokenizer_config.json");
    // Older folders name the roles of tokens in a file of their own.
    if (member(config_, "added_tokens_decoder").is_null()) config_.update(parse("special_tokens_map.json"));
  }

  // An empty object where there is no such file.
  Json parse(const std::string& name) {
    Json parsed = Json::object();
    const auto file = parts_.files.find(name);
    if (file != parts_.files.end()) attempt([&] { parsed = parse_json_object(name, file->second); });
    return parsed;
  }

  void read_model(const Json& model) {
    const std::string type = text(model, "type");
    if (!type.empty() && type != "BPE")
      return add("model", fmt::format("'{}' is not supported; supported: BPE", type));
    if (!tokenizer_.has_vocabulary || tokenizer_.vocabulary.empty())
      return add("model", "there is no vocab, an object of token to id");
    if (!tokenizer_.has_merges) return add("model", "there are no merges, a list of pairs");
    for (const std::string& mistake : tokenizer_.mistakes) mistakes_.add("tokenizer.json", mistake);
    if (!member(model, "dropout").is_null() && member(model, "dropout") != 0)
      add("model", "dropout is not supported");
    if (flag(model, "byte_fallback"))
      add("model", "byte_fallback is not supported: only byte-level vocabularies are");
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (!text(model, key).empty())
        add("model", fmt::format("{} '{}' is not supported", key, text(model, key)));
    if (read_vocabulary(flag(model, "ignore_merges")))
      read_merges();
    else
      vocabulary_.reset();
  }

  bool read_vocabulary(bool whole_words) {
    vocabulary_.emplace(tokenizer_.vocabulary.size());
    parts_.contents.reserve(tokenizer_.vocabulary.size());
    std::vector<bool> taken;
    for (const auto& [token, id] : tokenizer_.vocabulary) {
      if (id < 0 || id > kMaxTokenId) {
        add("model", fmt::format("the id of token '{}' is not a number in 0..{}", token, kMaxTokenId));
        return false;
      }
      const auto at = static_cast<size_t>(id);
      if (taken.size() <= at) taken.resize(at + 1);
      if (taken[at] || !vocabulary_->add(token, static_cast<int32_t>(id))) {
        add("model", fmt::format("id {} has two tokens or token '{}' two ids", id, token));
        return false;
      }
      taken[at] = true;
      std::optional<std::string> bytes = bytes_of(token);
      if (whole_words && bytes) whole_words_.emplace(*bytes, static_cast<int32_t>(id));
      set_content(static_cast<int32_t>(id), bytes ? std::move(*bytes) : std::string(token));
    }
    return true;
  }

  void read_merges() {
    std::array<int32_t, 256> byte_ids{};
    std::string missing;
    for (size_t byte = 0; byte < 256; ++byte) {
      byte_ids[byte] = vocabulary_->find(alphabet_of(static_cast<unsigned char>(byte)));
      if (byte_ids[byte] < 0) missing += fmt::format(" 0x{:02X}", byte);
    }
    if (!missing.empty())
      return add("model", "not a byte-level vocabulary; there are no tokens for the bytes" + missing);

    std::vector<Merge> merges;
    merges.reserve(tokenizer_.merges.size());
    for (const auto& [left, right] : tokenizer_.merges) {
      const Merge merge{vocabulary_->find(left), vocabulary_->find(right), vocabulary_->find(left, right)};
      if (left.empty() || right.empty() || merge.left < 0 || merge.right < 0 || merge.merged < 0)
        return add("model", fmt::format("merge {}: '{}' and '{}' are not two tokens whose union is a token",
                                        merges.size() + 1, left, right));
      merges.push_back(merge);
    }
    parts_.pairs.emplace(byte_ids, merges);
    if (!whole_words_.empty()) parts_.pairs->set_whole_words(std::move(whole_words_));
  }

  // Those of tokenizer.json, then what tokenizer_config.json changes or adds, as transformers does.
  void read_added_tokens() {
    next_id_ = static_cast<int32_t>(vocabulary_->size());
    const Json& listed = member(tokenizer_.rest, "added_tokens");
    if (!listed.is_null() && !listed.is_array()) add("added_tokens", "expected a list");
    if (listed.is_array())
      for (const Json& token : listed)
        read_added_token("tokenizer.json: added_tokens", token, member(token, "id"));
    for (const auto& [id, token] : added_)
      if (id >= next_id_) next_id_ = id + 1;

    const std::string where = "tokenizer_config.json: added_tokens_decoder";
    std::map<uint64_t, const Json*> by_id;
    const Json& decoder = member(config_, "added_tokens_decoder");
    for (const auto& item : decoder.items()) {
      const Json id = Json::parse(decoder.is_object() ? item.key() : "", nullptr, false);
      if (!is_token_id(id))
        return mistakes_.add(where,
                             fmt::format("'{}' is not an id in 0..{}", shortened(item.key()), kMaxTokenId));
      by_id[id.get<uint64_t>()] = &item.value();
    }
    for (const auto& [id, token] : by_id) read_added_token(where, *token, Json(id));
    for (const Json& token : special_tokens_of_config()) {
      const std::string content = content_of(token);
      if (added_ids_.contains(content)) continue;
      const int32_t id = vocabulary_->find(content);
      if (id >= 0) put(id, {id, content, true, false, flag(token, "lstrip"), flag(token, "rstrip"), false});
    }
    build_added_tokens();
  }

  void read_added_token(const std::string& where, const Json& token, const Json& id) {
    const std::string content = text(token, "content");
    if (!is_token_id(id) || content.empty())
      return mistakes_.add(where,
                           fmt::format("{} needs a content and an id in 0..{}", shown(token), kMaxTokenId));
    AddedToken added{id.get<int32_t>(),         content,
                     flag(token, "special"),    false,
                     flag(token, "lstrip"),     flag(token, "rstrip"),
                     flag(token, "single_word")};
    added.normalized = flag(token, "normalized", !added.special);
    const auto known = added_ids_.find(content);
    const int32_t old_id = known != added_ids_.end() ? known->second : vocabulary_->find(content);
    const int32_t expected = old_id >= 0 ? old_id : next_id_++;
    if (added.id != expected)
      return mistakes_.add(where,
                           fmt::format("'{}' has id {}, but Hugging Face's tokenizers, which number what "
                                       "is not in the vocabulary, give it {}",
                                       shortened(content), added.id, expected));
    put(added.id, added);
  }

  void put(int32_t id, AddedToken token) {
    added_ids_[token.content] = id;
    if (token.special) special_contents_.insert(token.content);
    added_[id] = std::move(token);
  }

  void build_added_tokens() {
    std::set<std::pair<bool, std::string>> seen;
    for (auto& [id, token] : added_) {
      // Once special, always special; and what decoding compares is the normalised text.
      token.special = special_contents_.contains(token.content);
      std::string pattern = token.content;
      if (token.normalized && parts_.stages.nfc) unicode::normalize_nfc(token.content, pattern);
      set_content(id, bytes_of(pattern).value_or(pattern));
      parts_.is_special[static_cast<size_t>(id)] = special_contents_.contains(pattern);
      if (!seen.emplace(token.normalized, pattern).second)
        add("added_tokens", fmt::format("two tokens are '{}', once normalised", pattern));
      AddedToken searched = token;
      searched.content = std::move(pattern);
      (token.normalized ? parts_.normalized : parts_.verbatim).add(searched);
    }
  }

  // The tokens that have a role, "eos_token" and the like, and further ones in a list or under names.
  std::vector<Json> special_tokens_of_config() const {
    std::vector<Json> tokens;
    for (const auto& [key, value] : config_.items())
      if (key.ends_with("_token") && !content_of(value).empty()) tokens.push_back(value);
    const Json& extra = member(config_, "extra_special_tokens");
    const bool is_list = extra.is_array() && !extra.empty();
    const Json& list = is_list ? extra : member(config_, "additional_special_tokens");
    for (const Json* some : {&list, &extra})
      if (some->is_array() || some->is_object())
        for (const auto& item : some->items())
          if (!content_of(item.value()).empty()) tokens.push_back(item.value());
    return tokens;
  }

  // "<|im_end|>" or {"content": "<|im_end|>", ...}
  static std::string content_of(const Json& token) {
    return token.is_string() ? token.get<std::string>() : text(token, "content");
  }

  // The id of the token that has this role; a mistake if it is named and does not exist.
  std::optional<int32_t> role(const char* key) {
    const std::string content = content_of(member(config_, key));
    if (content.empty()) return std::nullopt;
    if (const auto added = added_ids_.find(content); added != added_ids_.end()) return added->second;
    mistakes_.add(fmt::format("tokenizer_config.json: {}", key),
                  fmt::format("no token is '{}'", shortened(content)));
    return std::nullopt;
  }

  // "eos_token_id": 151645 or [151645, 151643].
  std::vector<int32_t> eos_ids(const std::string& file) {
    std::vector<int32_t> ids;
    const Json parsed = parse(file);
    const Json& value = member(parsed, "eos_token_id");
    for (const Json& id : value.is_array() ? value : Json::array({value})) {
      if (id.is_null()) continue;
      if (is_token(id))
        ids.push_back(id.get<int32_t>());
      else
        mistakes_.add(file + ": eos_token_id", fmt::format("{} is not the id of a token", shown(id)));
    }
    return ids;
  }

  void read_roles() {
    std::vector<int32_t> ends = eos_ids("generation_config.json");
    if (ends.empty()) ends = eos_ids("config.json");
    if (const auto eos = role("eos_token")) {
      ends.erase(std::remove(ends.begin(), ends.end(), *eos), ends.end());
      ends.insert(ends.begin(), *eos);
    }
    if (ends.empty())
      return mistakes_.add(
          "",
          "nothing says which token ends a text: name it as eos_token in tokenizer_config.json, or "
          "eos_token_id in generation_config.json");
    parts_.eos_id = ends.front();
    parts_.stop_ids = std::move(ends);
    parts_.pad_id = role("pad_token").value_or(parts_.eos_id);
  }

  void check_ids_around_a_text() {
    for (const auto* ids : {&parts_.stages.before, &parts_.stages.after})
      for (const int32_t id : *ids)
        if (static_cast<size_t>(id) >= parts_.contents.size())
          add("post_processor", fmt::format("{} is not the id of a token", id));
  }

  bool is_token(const Json& id) const { return is_token_id(id) && id.get<size_t>() < parts_.contents.size(); }

  void set_content(int32_t id, std::string content) {
    const auto at = static_cast<size_t>(id);
    if (at >= parts_.contents.size()) {
      parts_.contents.resize(at + 1);
      parts_.is_special.resize(at + 1);
    }
    parts_.contents[at] = std::move(content);
  }

  TokenizerParts parts_;
  const std::string& folder_;
  Mistakes mistakes_;
  TokenizerJson tokenizer_;
  Json config_;
  std::optional<TokenizerVocabulary> vocabulary_;  // of the model
  std::unordered_map<std::string, int32_t> whole_words_;
  std::map<int32_t, AddedToken> added_;
  std::unordered_map<std::string, int32_t> added_ids_;
  std::set<std::string> special_contents_;
  int32_t next_id_ = 0;  // of an added token that the vocabulary does not hold
};

}  // namespace

TokenizerParts read_tokenizer_parts(std::map<std::string, std::string> files, const std::string& folder) {
  return PartsReader(std::move(files), folder).read();
}

}  // namespace trireme::text
