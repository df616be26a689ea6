#include "trainer/text/tokenizer.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/files.h"
#include "trainer/text/byte_alphabet.h"
#include "trainer/text/tokenizer_parts.h"
#include "trainer/text/unicode.h"
#include "trainer/text/utf8.h"

namespace trireme::text {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::map<std::string, std::string> byte_tokenizer_files() {
  const std::vector<std::string> special{"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
  Json vocab = Json::object(), added = Json::array(), decoder_table = Json::object();
  for (int byte = 0; byte < 256; ++byte) vocab[alphabet_of(static_cast<unsigned char>(byte))] = byte;
  for (size_t i = 0; i < special.size(); ++i) {
    Json token{{"content", special[i]}, {"single_word", false}, {"lstrip", false},
               {"rstrip", false},       {"normalized", false},  {"special", true}};
    decoder_table[std::to_string(256 + i)] = token;
    token["id"] = 256 + i;
    added.push_back(std::move(token));
  }
  const Json byte_level{
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}};
  const Json tokenizer{{"version", "1.0"},
                       {"truncation", nullptr},
                       {"padding", nullptr},
                       {"added_tokens", added},
                       {"normalizer", nullptr},
                       {"pre_tokenizer", byte_level},
                       {"post_processor", nullptr},
                       {"decoder", byte_level},
                       {"model",
                        {{"type", "BPE"},
                         {"dropout", nullptr},
                         {"unk_token", nullptr},
                         {"continuing_subword_prefix", nullptr},
                         {"end_of_word_suffix", nullptr},
                         {"fuse_unk", false},
                         {"byte_fallback", false},
                         {"ignore_merges", false},
                         {"vocab", vocab},
                         {"merges", Json::array()}}}};
  const Json config{{"tokenizer_class", "PreTrainedTokenizerFast"},
                    {"added_tokens_decoder", decoder_table},
                    {"bos_token", nullptr},
                    {"eos_token", special[0]},
                    {"pad_token", special[0]},
                    {"unk_token", nullptr},
                    {"clean_up_tokenization_spaces", false}};
  return {{"tokenizer.json", tokenizer.dump(1) + "\n"}, {"tokenizer_config.json", config.dump(1) + "\n"}};
}

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<const TokenizerParts> parts) : parts_(std::move(parts)) {}
Tokenizer::~Tokenizer() = default;

std::shared_ptr<const Tokenizer> Tokenizer::from_folder(const std::string& folder) {
  if (!fs::is_directory(folder))
    fail(ErrorCode::invalid_config, "the tokenizer's folder '{}' does not exist", folder);
  std::map<std::string, std::string> files;
  const auto read = [&](const char* name) {
    const std::string path = (fs::path(folder) / name).string();
    if (fs::exists(path)) files[name] = files::read(path);
  };
  for (const char* name : kTokenizerFiles) read(name);
  for (const char* name : kModelFiles) read(name);
  return std::shared_ptr<const Tokenizer>(
      new Tokenizer(std::make_unique<TokenizerParts>(read_tokenizer_parts(std::move(files), folder))));
}

std::shared_ptr<const Tokenizer> Tokenizer::bytes() {
  static const std::shared_ptr<const Tokenizer> instance(new Tokenizer(
      std::make_unique<TokenizerParts>(read_tokenizer_parts(byte_tokenizer_files(), "the byte tokenizer"))));
  return instance;
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, bool parse_special) const {
  std::vector<int32_t> ids;
  std::vector<TextPart> parts, inner_parts;
  parts_->verbatim.split(text, parse_special, parts);
  std::string normal_form;
  for (const TextPart& part : parts) {
    if (part.id >= 0) {
      ids.push_back(part.id);
      continue;
    }
    std::string_view plain = part.text;
    if (parts_->stages.nfc && unicode::normalize_nfc(plain, normal_form)) plain = normal_form;
    inner_parts.clear();
    parts_->normalized.split(plain, parse_special, inner_parts);
    for (const TextPart& inner : inner_parts) {
      if (inner.id >= 0)
        ids.push_back(inner.id);
      else
        parts_->stages.for_each_word(inner.text,
                                     [&](std::string_view word) { parts_->pairs->encode_word(word, ids); });
    }
  }
  return ids;
}

std::vector<int32_t> Tokenizer::with_special_tokens(std::vector<int32_t> ids) const {
  ids.insert(ids.begin(), parts_->stages.before.begin(), parts_->stages.before.end());
  ids.insert(ids.end(), parts_->stages.after.begin(), parts_->stages.after.end());
  return ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  std::string bytes;
  for (const int32_t id : ids) bytes += bytes_of_token(id, skip_special);
  return replace_not_utf8(std::move(bytes));
}

std::string_view Tokenizer::bytes_of_token(int32_t id, bool skip_special) const {
  TRIREME_CHECK(id >= 0, "token id {} is negative", id);
  if (id >= vocab_size()) return {};  // a row of the embedding that only fills it up to a round number
  const auto at = static_cast<size_t>(id);
  return skip_special && parts_->is_special[at] ? std::string_view() : parts_->contents[at];
}

int32_t Tokenizer::vocab_size() const {
  return static_cast<int32_t>(parts_->contents.size());
}
int32_t Tokenizer::eos_id() const {
  return parts_->eos_id;
}
const std::vector<int32_t>& Tokenizer::stop_ids() const {
  return parts_->stop_ids;
}
int32_t Tokenizer::pad_id() const {
  return parts_->pad_id;
}

void Tokenizer::save(const std::string& folder) const {
  for (const auto& [name, content] : parts_->files)
    files::write_atomically((fs::path(folder) / name).string(), content);
}

}  // namespace trireme::text
