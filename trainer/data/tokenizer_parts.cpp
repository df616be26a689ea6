#include "trainer/data/tokenizer_parts.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "runtime/base/error.h"
#include "trainer/data/byte_alphabet.h"
#include "trainer/data/unicode.h"

namespace trireme::data {
namespace {

using Json = nlohmann::json;
using Vocabulary = std::unordered_map<std::string_view, int32_t>;

constexpr int64_t kMaxId = 1 << 22;  // far above any vocabulary: a larger id is a mistake in the file

// The member, or null if there is none.
const Json& member(const Json& object, const char* key) {
  static const Json null;
  if (!object.is_object()) return null;
  const auto found = object.find(key);
  return found == object.end() ? null : *found;
}

bool flag(const Json& object, const char* key, bool otherwise = false) {
  const Json& value = member(object, key);
  return value.is_boolean() ? value.get<bool>() : otherwise;
}

std::string text(const Json& object, const char* key) {
  const Json& value = member(object, key);
  return value.is_string() ? value.get<std::string>() : "";
}

class PartsReader {
 public:
  PartsReader(std::map<std::string, std::string> files, const std::string& folder) : folder_(folder) {
    parts_.files = std::move(files);
  }

  TokenizerParts read() {
    const Json tokenizer = parse("tokenizer.json");
    const Json config = parse("tokenizer_config.json");
    mistakes_.throw_if_any(heading());
    read_normalizer(member(tokenizer, "normalizer"));
    read_pre_tokenizer(member(tokenizer, "pre_tokenizer"), true);
    if (!byte_level_)
      add("pre_tokenizer", "there is no ByteLevel; only byte-level vocabularies are supported");
    if (text(member(tokenizer, "decoder"), "type") != "ByteLevel")
      unsupported("decoder", member(tokenizer, "decoder"), "ByteLevel");
    read_model(member(tokenizer, "model"));
    for (const Json& token : member(tokenizer, "added_tokens")) read_added_token(token, member(token, "id"));
    const Json& more = member(config, "added_tokens_decoder");
    for (const auto& item : more.items())
      read_added_token(item.value(), Json::parse(item.key(), nullptr, false));
    read_roles(config);
    mistakes_.throw_if_any(heading());
    for (const char* name : kModelFiles) parts_.files.erase(name);
    return std::move(parts_);
  }

 private:
  std::string heading() const { return fmt::format("the tokenizer in {} cannot be used:", folder_); }
  void add(const std::string& where, std::string what) {
    mistakes_.add("tokenizer.json: " + where, std::move(what));
  }

  void unsupported(const std::string& where, const Json& component, const std::string& supported) {
    const std::string type = text(component, "type");
    add(where, fmt::format("{} is not supported; supported: {}",
                           type.empty() ? "a missing type" : "'" + type + "'", supported));
  }

  Json parse(const std::string& name) {
    const auto file = parts_.files.find(name);
    if (file == parts_.files.end()) {
      if (name == "tokenizer.json") mistakes_.add("", "tokenizer.json is missing");
      return {};
    }
    try {
      Json parsed = Json::parse(file->second);
      if (!parsed.is_object())
        mistakes_.add(name, fmt::format("expected an object, found {}", parsed.type_name()));
      return parsed;
    } catch (const Json::parse_error& error) {
      const auto at = static_cast<ptrdiff_t>(std::min(error.byte, file->second.size()));
      const auto line = 1 + std::count(file->second.begin(), file->second.begin() + at, '\n');
      mistakes_.add(fmt::format("{}:{}", name, line), fmt::format("bad JSON: {}", error.what()));
      return {};
    }
  }

  void read_normalizer(const Json& normalizer) {
    const std::string type = text(normalizer, "type");
    if (normalizer.is_null()) return;
    if (type == "NFC")
      parts_.nfc = true;
    else if (type == "Sequence")
      for (const Json& each : member(normalizer, "normalizers")) read_normalizer(each);
    else
      unsupported("normalizer", normalizer, "NFC");
  }

  void read_pre_tokenizer(const Json& component, bool outermost) {
    const std::string type = text(component, "type");
    if (component.is_null() && outermost) return;
    if (byte_level_) add("pre_tokenizer", "components after ByteLevel are not supported");
    if (type == "Sequence") {
      for (const Json& each : member(component, "pretokenizers")) read_pre_tokenizer(each, false);
    } else if (type == "ByteLevel") {
      if (flag(component, "add_prefix_space", true))
        add("pre_tokenizer", "ByteLevel with add_prefix_space is not supported");
      if (flag(component, "use_regex", true)) add_splitter(kGpt2Regex);
      byte_level_ = true;
    } else if (type == "Digits") {
      add_splitter(flag(component, "individual_digits") ? "\\p{N}" : "\\p{N}+");
    } else if (type == "Split") {
      read_split(component);
    } else {
      unsupported("pre_tokenizer", component, "Sequence, Split, Digits, ByteLevel");
    }
  }

  void read_split(const Json& split) {
    const std::string regex = text(member(split, "pattern"), "Regex");
    const std::string behavior = text(split, "behavior");
    if (regex.empty()) return add("pre_tokenizer", "Split: only a pattern of the kind Regex is supported");
    if (behavior != "Isolated" || flag(split, "invert"))
      return add("pre_tokenizer", fmt::format("Split: behavior '{}'{} is not supported; supported: Isolated",
                                              behavior, flag(split, "invert") ? " with invert" : ""));
    add_splitter(regex);
  }

  void add_splitter(const std::string& regex) {
    try {
      parts_.splitters.push_back(make_splitter(regex));
    } catch (const Error& error) {
      add("pre_tokenizer", error.message());
    }
  }

  void read_model(const Json& model) {
    const std::string type = text(model, "type");
    if (!type.empty() && type != "BPE") return unsupported("model", model, "BPE");
    const Json& vocab = member(model, "vocab");
    if (!vocab.is_object() || vocab.empty())
      return add("model", "there is no vocab, an object of token to id");
    if (!member(model, "merges").is_array()) return add("model", "there are no merges, a list of pairs");
    if (!member(model, "dropout").is_null() && member(model, "dropout") != 0)
      add("model", "dropout is not supported");
    if (flag(model, "byte_fallback"))
      add("model", "byte_fallback is not supported: only byte-level vocabularies are");
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (!text(model, key).empty())
        add("model", fmt::format("{} '{}' is not supported", key, text(model, key)));

    vocabulary_.reserve(vocab.size());
    for (const auto& [token, id] : vocab.get_ref<const Json::object_t&>()) {
      if (!is_id(id))
        return add("model", fmt::format("the id of token '{}' is {}, not a number in 0..{}", token, id.dump(),
                                        kMaxId));
      const auto at = id.get<size_t>();
      if (at < parts_.contents.size() && !parts_.contents[at].empty())
        return add("model", fmt::format("id {} has two tokens; one is '{}'", at, token));
      std::optional<std::string> bytes = bytes_of(token);
      set_content(id.get<int32_t>(), bytes ? std::move(*bytes) : token);
      vocabulary_.emplace(token, id.get<int32_t>());
    }
    read_merges(member(model, "merges"));
    if (flag(model, "ignore_merges") && parts_.pairs) {
      std::unordered_map<std::string, int32_t> words;
      for (const auto& [token, id] : vocabulary_) words.emplace(parts_.contents[static_cast<size_t>(id)], id);
      parts_.pairs->set_whole_words(std::move(words));
    }
  }

  void read_merges(const Json& list) {
    std::array<int32_t, 256> byte_ids{};
    std::string missing;
    for (int byte = 0; byte < 256; ++byte) {
      const auto found = vocabulary_.find(alphabet_of(static_cast<unsigned char>(byte)));
      if (found == vocabulary_.end())
        missing += fmt::format(" 0x{:02X}", byte);
      else
        byte_ids[static_cast<size_t>(byte)] = found->second;
    }
    if (!missing.empty())
      return add("model", "not a byte-level vocabulary; there are no tokens for the bytes" + missing);

    std::vector<Merge> merges;
    merges.reserve(list.size());
    std::string whole;
    for (const Json& item : list) {
      const auto [left, right] = halves_of(item);
      whole.assign(left).append(right);
      const auto left_id = vocabulary_.find(left), right_id = vocabulary_.find(right),
                 whole_id = vocabulary_.find(whole);
      const bool known =
          left_id != vocabulary_.end() && right_id != vocabulary_.end() && whole_id != vocabulary_.end();
      if (left.empty() || right.empty() || !known)
        return add("model", fmt::format("merge {}: {} is not a pair of tokens whose union is a token",
                                        merges.size() + 1, item.dump()));
      merges.push_back({left_id->second, right_id->second, whole_id->second});
    }
    parts_.pairs.emplace(byte_ids, merges);
  }

  // ["a", "b"] or, in older files, "a b".
  static std::pair<std::string_view, std::string_view> halves_of(const Json& item) {
    if (item.is_array() && item.size() == 2 && item[0].is_string() && item[1].is_string())
      return {item[0].get_ref<const std::string&>(), item[1].get_ref<const std::string&>()};
    if (!item.is_string()) return {};
    const std::string_view both = item.get_ref<const std::string&>();
    const size_t space = both.find(' ');
    if (space == std::string_view::npos) return {};
    return {both.substr(0, space), both.substr(space + 1)};
  }

  void read_added_token(const Json& token, const Json& id) {
    const std::string content = text(token, "content");
    if (!is_id(id) || content.empty())
      return add("added_tokens", fmt::format("{} needs a content and an id in 0..{}", token.dump(), kMaxId));
    AddedToken added{id.get<int32_t>(),    content, flag(token, "special"), false, flag(token, "lstrip"),
                     flag(token, "rstrip")};
    added.normalized = flag(token, "normalized", !added.special);
    const auto [known, is_new] = added_ids_.emplace(content, added.id);
    if (!is_new && known->second != added.id)
      return add("added_tokens",
                 fmt::format("'{}' has two ids, {} and {}", content, known->second, added.id));
    if (!is_new) return;
    if (flag(token, "single_word"))
      return add("added_tokens", fmt::format("'{}': single_word is not supported", content));
    set_content(added.id, content);
    parts_.is_special[static_cast<size_t>(added.id)] = added.special;
    if (added.normalized && parts_.nfc) unicode::normalize_nfc(content, added.content);
    (added.normalized ? parts_.normalized : parts_.verbatim).add(added);
  }

  // The id of a token that tokenizer_config.json names: "eos_token": "<|im_end|>" or {"content": ...}.
  std::optional<int32_t> role(const Json& config, const char* key) {
    const Json& value = member(config, key);
    const std::string content = value.is_string() ? value.get<std::string>() : text(value, "content");
    if (content.empty()) return std::nullopt;
    if (const auto added = added_ids_.find(content); added != added_ids_.end()) return added->second;
    const auto found = std::find(parts_.contents.begin(), parts_.contents.end(), content);
    if (found != parts_.contents.end()) return static_cast<int32_t>(found - parts_.contents.begin());
    mistakes_.add(fmt::format("tokenizer_config.json: {}", key), fmt::format("no token is '{}'", content));
    return std::nullopt;
  }

  // "eos_token_id": 151645 or [151645, 151643].
  std::vector<int32_t> eos_ids(const std::string& file) {
    std::vector<int32_t> ids;
    const Json parsed = parse(file);
    const Json& value = member(parsed, "eos_token_id");
    for (const Json& id : value.is_array() ? value : Json::array({value})) {
      if (id.is_null()) continue;
      if (is_id(id) && id.get<size_t>() < parts_.contents.size())
        ids.push_back(id.get<int32_t>());
      else
        mistakes_.add(file + ": eos_token_id", fmt::format("{} is not the id of a token", id.dump()));
    }
    return ids;
  }

  void read_roles(const Json& config) {
    std::vector<int32_t> ends = eos_ids("generation_config.json");
    if (ends.empty()) ends = eos_ids("config.json");
    if (const auto eos = role(config, "eos_token")) {
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
    parts_.pad_id = role(config, "pad_token").value_or(parts_.eos_id);
  }

  static bool is_id(const Json& value) {
    return value.is_number_integer() && value.get<int64_t>() >= 0 && value.get<int64_t>() <= kMaxId;
  }

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
  Vocabulary vocabulary_;  // of the model, into the parsed file
  std::unordered_map<std::string, int32_t> added_ids_;
  bool byte_level_ = false;
};

}  // namespace

TokenizerParts read_tokenizer_parts(std::map<std::string, std::string> files, const std::string& folder) {
  return PartsReader(std::move(files), folder).read();
}

}  // namespace trireme::data
