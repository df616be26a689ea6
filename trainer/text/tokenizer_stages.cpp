#include "trainer/text/tokenizer_stages.h"

#include <optional>
#include <string>
#include <utility>

#include "trainer/text/tokenizer_json.h"
#include "trainer/text/utf8.h"

namespace trireme::text {
namespace {

using Json = nlohmann::json;

class StagesReader {
 public:
  explicit StagesReader(Mistakes& mistakes) : mistakes_(mistakes) {}

  TokenizerStages read(const Json& tokenizer) {
    read_normalizer(member(tokenizer, "normalizer"));
    if (const Json& pre_tokenizer = member(tokenizer, "pre_tokenizer"); !pre_tokenizer.is_null())
      read_pre_tokenizer(pre_tokenizer);
    if (!byte_level_)
      add("pre_tokenizer", "there is no ByteLevel; only byte-level vocabularies are supported");
    if (const Json& processor = member(tokenizer, "post_processor"); !processor.is_null())
      read_post_processor(processor);
    const Json& decoder = member(tokenizer, "decoder");
    if (text(decoder, "type") != "ByteLevel") unsupported("decoder", decoder, "ByteLevel");
    return std::move(stages_);
  }

 private:
  void add(const std::string& where, const std::string& what) {
    mistakes_.add("tokenizer.json: " + where, shortened(what));
  }
  void unsupported(const std::string& where, const Json& component, const std::string& supported) {
    const std::string type = text(component, "type");
    add(where, fmt::format("{} is not supported; supported: {}",
                           type.empty() ? "a missing type" : "'" + type + "'", supported));
  }

  // The parts of a Sequence; whatever else stands there is a mistake.
  const Json& parts(const std::string& where, const Json& sequence, const char* key) {
    static const Json none = Json::array();
    const Json& list = member(sequence, key);
    if (list.is_array()) return list;
    add(where, fmt::format("no {}, a list", key));
    return none;
  }

  void read_normalizer(const Json& normalizer) {
    if (normalizer.is_null()) return;
    const std::string type = text(normalizer, "type");
    if (type == "NFC")
      stages_.nfc = true;
    else if (type == "Sequence")
      for (const Json& each : parts("normalizer", normalizer, "normalizers")) read_normalizer(each);
    else
      unsupported("normalizer", normalizer, "Sequence, NFC");
  }

  void read_pre_tokenizer(const Json& component) {
    const std::string type = text(component, "type");
    if (byte_level_) add("pre_tokenizer", "components after ByteLevel are not supported");
    if (type == "Sequence") {
      for (const Json& each : parts("pre_tokenizer", component, "pretokenizers")) read_pre_tokenizer(each);
    } else if (type == "ByteLevel") {
      if (flag(component, "add_prefix_space", true)) stages_.space_before = stages_.splitters.size();
      if (flag(component, "use_regex", true)) stages_.splitters.push_back(make_splitter(kGpt2Regex));
      byte_level_ = true;
    } else if (type == "Digits") {
      stages_.splitters.push_back(make_digits_splitter(flag(component, "individual_digits")));
    } else if (type == "Split") {
      read_split(component);
    } else {
      unsupported("pre_tokenizer", component, "Sequence, Split, Digits, ByteLevel");
    }
  }

  void read_split(const Json& split) {
    const Json& pattern = member(split, "pattern");
    const std::string regex = text(pattern, "Regex"), literal = text(pattern, "String");
    const std::string name = text(split, "behavior");
    const bool invert = flag(split, "invert");
    const std::optional<SplitBehavior> behavior = behavior_of(name);
    if (regex.empty() == literal.empty())
      return add("pre_tokenizer", "Split: expected a pattern, {\"Regex\": ...} or {\"String\": ...}");
    if (!behavior)
      return add("pre_tokenizer", fmt::format("Split: behavior '{}' is not supported; supported: Isolated, "
                                              "Removed, MergedWithPrevious, MergedWithNext, Contiguous",
                                              name));
    try {
      stages_.splitters.push_back(!literal.empty() ? make_text_splitter(literal, *behavior, invert)
                                  // Where all parts are words, it is the same which of them are matches.
                                  : behavior == SplitBehavior::isolated
                                      ? make_splitter(regex)
                                      : make_regex_splitter(regex, *behavior, invert));
    } catch (const Error& error) {
      add("pre_tokenizer", error.message());
    }
  }

  static std::optional<SplitBehavior> behavior_of(const std::string& name) {
    if (name == "Isolated") return SplitBehavior::isolated;
    if (name == "Removed") return SplitBehavior::removed;
    if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
    if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
    if (name == "Contiguous") return SplitBehavior::contiguous;
    return std::nullopt;
  }

  void read_post_processor(const Json& processor) {
    const std::string type = text(processor, "type");
    if (type == "Sequence") {
      for (const Json& each : parts("post_processor", processor, "processors")) read_post_processor(each);
    } else if (type == "TemplateProcessing") {
      read_template(processor);
    } else if (type == "BertProcessing" || type == "RobertaProcessing") {
      const auto begin = named_id(processor, "cls"), end = named_id(processor, "sep");
      if (begin && end) surround({*begin}, {*end});
    } else if (type != "ByteLevel") {  // which is about offsets into the text only
      unsupported("post_processor", processor,
                  "Sequence, TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel");
    }
  }

  // "single": [{"SpecialToken": {"id": NAME}}, {"Sequence": {"id": "A"}}], and the ids of each NAME.
  void read_template(const Json& processor) {
    std::vector<int32_t> before, after;
    int64_t texts = 0;
    for (const Json& piece : parts("post_processor", processor, "single")) {
      if (const Json& sequence = member(piece, "Sequence"); sequence.is_object()) {
        if (text(sequence, "id") != "A") add("post_processor", "a template for one text that names a second");
        ++texts;
        continue;
      }
      const std::string name = text(member(piece, "SpecialToken"), "id");
      const Json& ids = member(member(member(processor, "special_tokens"), name.c_str()), "ids");
      if (name.empty() || !ids.is_array())
        return add("post_processor",
                   fmt::format("{} is not a piece of a template with ids in special_tokens", shown(piece)));
      for (const Json& id : ids) {
        if (!is_token_id(id))
          return add("post_processor", fmt::format("'{}': {} is not the id of a token", name, shown(id)));
        (texts == 0 ? before : after).push_back(id.get<int32_t>());
      }
    }
    if (texts != 1) return add("post_processor", "a template that does not hold the text once");
    surround(std::move(before), std::move(after));
  }

  // "cls": ["<s>", 0]
  std::optional<int32_t> named_id(const Json& processor, const char* key) {
    const Json& pair = member(processor, key);
    if (pair.is_array() && pair.size() == 2 && pair[0].is_string() && is_token_id(pair[1]))
      return pair[1].get<int32_t>();
    add("post_processor", fmt::format("{} is {}, not a token and its id", key, shown(pair)));
    return std::nullopt;
  }

  void surround(std::vector<int32_t> before, std::vector<int32_t> after) {
    if (std::exchange(surrounded_, true)) add("post_processor", "only one that adds tokens is supported");
    stages_.before = std::move(before);
    stages_.after = std::move(after);
  }

  Mistakes& mistakes_;
  TokenizerStages stages_;
  bool byte_level_ = false, surrounded_ = false;
};

}  // namespace

TokenizerStages read_tokenizer_stages(const Json& tokenizer, Mistakes& mistakes) {
  return StagesReader(mistakes).read(tokenizer);
}

}  // namespace trireme::text
