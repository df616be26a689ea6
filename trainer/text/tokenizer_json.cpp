#include "trainer/text/tokenizer_json.h"

#include <algorithm>

#include "runtime/base/error.h"
#include "trainer/text/utf8.h"

namespace trireme::text {
namespace {

using Json = nlohmann::json;

// Far above any tokenizer's; what lies deeper would be walked by recursion when shown or freed.
constexpr size_t kMaxDepth = 64;

// Receives the file value by value (nlohmann's SAX interface; false ends the reading).
class Reader : public nlohmann::json_sax<Json> {
 public:
  Reader(TokenizerJson& out, size_t num_bytes, bool with_lists)
      : out_(out), with_lists_(with_lists), texts_(new char[num_bytes]) {
    out_.texts.reset(texts_);
  }

  size_t error_position() const { return error_position_; }
  const std::string& error() const { return error_; }
  Json& root() { return root_; }

  bool null() override { return scalar(nullptr); }
  bool boolean(bool value) override { return scalar(value); }
  bool number_integer(int64_t value) override { return is_id() ? add_id(-1) : scalar(value); }  // below 0
  bool number_unsigned(uint64_t value) override {
    return is_id() ? add_id(static_cast<int64_t>(std::min<uint64_t>(value, INT64_MAX))) : scalar(value);
  }
  bool number_float(double value, const std::string&) override { return scalar(value); }
  bool binary(binary_t&) override { return false; }  // only in binary formats

  bool string(std::string& value) override {
    if (list_ != List::merges) return scalar(value);
    if (depth_ == kInList)
      add_joined_merge(keep(value));
    else if (depth_ == kInList + 1 && num_halves_ < 2)
      halves_[num_halves_++] = keep(value);
    else
      num_halves_ = 3;
    return true;
  }

  bool key(std::string& value) override {
    if (list_ == List::vocabulary) {
      if (depth_ == kInList) key_ = keep(value);
      return true;
    }
    if (list_ == List::merges) return true;
    if (depth_ == 1) in_model_ = value == "model";
    next_ = List::none;
    if (with_lists_ && in_model_ && depth_ == 2 && value == "vocab") next_ = List::vocabulary;
    if (with_lists_ && in_model_ && depth_ == 2 && value == "merges") next_ = List::merges;
    member_ = &(*open_.back())[value];
    return true;
  }

  bool start_object(size_t) override { return start(true); }
  bool start_array(size_t) override { return start(false); }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& what) override {
    error_position_ = position;
    error_ = fmt::format("bad JSON: {}", what.what());
    return false;
  }

 private:
  enum class List { none, vocabulary, merges };
  static constexpr size_t kInList = 3;  // depth of the elements of the two lists

  std::string_view keep(const std::string& value) {
    std::copy(value.begin(), value.end(), texts_);
    const std::string_view kept(texts_, value.size());
    texts_ += value.size();
    return kept;
  }

  Json* place(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    if (open_.back()->is_array()) return &open_.back()->emplace_back(std::move(value));
    *member_ = std::move(value);
    return member_;
  }

  bool is_id() const { return list_ == List::vocabulary && depth_ == kInList; }
  bool add_id(int64_t id) {
    out_.vocabulary.push_back({key_, id});
    return true;
  }

  bool scalar(Json value) {
    if (list_ == List::vocabulary) {
      if (is_id()) refuse_id(shown(value));
    } else if (list_ == List::merges) {
      if (depth_ == kInList) refuse_merge(shown(value));
      num_halves_ = 3;
    } else {
      place(std::move(value));
    }
    return true;
  }

  bool start(bool is_object) {
    if (++depth_ > kMaxDepth) {
      error_ = fmt::format("nested deeper than {}", kMaxDepth);
      return false;
    }
    if (list_ == List::none) {
      open_.push_back(place(is_object ? Json::object() : Json::array()));
      if (open_.size() > 1 && next_ != List::none && is_object == (next_ == List::vocabulary)) {
        list_ = next_;
        if (list_ == List::vocabulary) out_.vocabulary.clear();
        if (list_ == List::merges) out_.merges.clear();
        (list_ == List::vocabulary ? out_.has_vocabulary : out_.has_merges) = true;
      }
      next_ = List::none;
    } else if (depth_ == kInList + 1) {
      if (list_ == List::vocabulary) refuse_id(is_object ? "an object" : "an array");
      num_halves_ = is_object ? 3 : 0;
    } else {
      num_halves_ = 3;
    }
    return true;
  }

  bool end() {
    --depth_;
    if (list_ == List::none || depth_ < kInList) {
      if (depth_ < kInList) list_ = List::none;
      open_.pop_back();
    } else if (list_ == List::merges && depth_ == kInList) {
      if (num_halves_ == 2)
        out_.merges.push_back({halves_[0], halves_[1]});
      else
        refuse_merge("");
    }
    return true;
  }

  // "a b", the form of older files.
  void add_joined_merge(std::string_view both) {
    const size_t space = both.find(' ');
    if (space == std::string_view::npos || both.find(' ', space + 1) != std::string_view::npos)
      return refuse_merge(fmt::format("'{}'", both));
    out_.merges.push_back({both.substr(0, space), both.substr(space + 1)});
  }

  void refuse_id(const std::string& found) {
    if (!bad_id_)
      out_.mistakes.push_back(fmt::format("model: the id of token '{}' is {}, not a number", key_, found));
    bad_id_ = true;
  }
  void refuse_merge(const std::string& found) {
    if (!bad_merge_)
      out_.mistakes.push_back(fmt::format("model: merge {}: {}expected a pair of tokens, [\"a\", \"b\"]",
                                          out_.merges.size() + 1, found.empty() ? "" : found + "; "));
    bad_merge_ = true;
  }

  TokenizerJson& out_;
  const bool with_lists_;
  char* texts_;  // where the next text is kept: texts are never longer than they are written
  Json root_;
  std::vector<Json*> open_;  // the objects and arrays around the next value
  Json* member_ = nullptr;   // of an object: where its next value goes
  size_t depth_ = 0;
  bool in_model_ = false, bad_id_ = false, bad_merge_ = false;
  List list_ = List::none, next_ = List::none;
  std::string_view key_;
  std::string_view halves_[2];
  int num_halves_ = 0;  // 3: not a pair
  size_t error_position_ = 0;
  std::string error_;
};

Json parse(const std::string& name, std::string_view text, TokenizerJson& out, bool with_lists) {
  Reader reader(out, text.size(), with_lists);
  if (!Json::sax_parse(text, &reader)) {
    if (reader.error_position() == 0) fail(ErrorCode::invalid_config, "{}: {}", name, reader.error());
    const auto end = text.begin() + static_cast<ptrdiff_t>(std::min(reader.error_position(), text.size()));
    fail(ErrorCode::invalid_config, "{}:{}: {}", name, 1 + std::count(text.begin(), end, '\n'),
         shortened(replace_not_utf8(reader.error())));
  }
  if (!reader.root().is_object())
    fail(ErrorCode::invalid_config, "{}: expected an object, found {}", name, reader.root().type_name());
  return std::move(reader.root());
}

}  // namespace

TokenizerJson parse_tokenizer_json(const std::string& name, std::string_view text) {
  TokenizerJson out;
  out.rest = parse(name, text, out, true);
  return out;
}

Json parse_json_object(const std::string& name, std::string_view text) {
  TokenizerJson unused;
  return parse(name, text, unused, false);
}

const Json& member(const Json& object, const char* key) {
  static const Json null;
  if (!object.is_object()) return null;
  const auto found = object.find(key);
  return found == object.end() ? null : *found;
}

bool flag(const Json& object, const char* key, bool otherwise) {
  const Json& value = member(object, key);
  return value.is_boolean() ? value.get<bool>() : otherwise;
}

std::string text(const Json& object, const char* key) {
  const Json& value = member(object, key);
  return value.is_string() ? value.get<std::string>() : "";
}

bool is_token_id(const Json& value) {
  return value.is_number_unsigned() && value.get<uint64_t>() <= static_cast<uint64_t>(kMaxTokenId);
}

std::string shown(const Json& value) {
  return shortened(value.dump(), 100);
}

}  // namespace trireme::text
