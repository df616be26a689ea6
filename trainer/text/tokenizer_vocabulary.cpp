#include "trainer/text/tokenizer_vocabulary.h"

#include <bit>
#include <cstring>

#include "runtime/base/counter_random.h"

namespace trireme::text {
namespace {

// FNV-1a: byte by byte, so that two parts hash as their union does.
uint64_t add_bytes(uint64_t hash, std::string_view bytes) {
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash;
}

}  // namespace

TokenizerVocabulary::TokenizerVocabulary(size_t num_tokens) : slots_(std::bit_ceil(2 * num_tokens + 1)) {}

size_t TokenizerVocabulary::slot_of(std::string_view left, std::string_view right) const {
  const uint64_t hash = add_bytes(add_bytes(0xcbf29ce484222325ull, left), right);
  size_t at = mix_bits(hash) & (slots_.size() - 1);
  for (; slots_[at].text != nullptr; at = (at + 1) & (slots_.size() - 1)) {
    const std::string_view token(slots_[at].text, slots_[at].num_bytes);
    if (token.size() == left.size() + right.size() && token.starts_with(left) && token.ends_with(right))
      break;
  }
  return at;
}

bool TokenizerVocabulary::add(std::string_view token, int32_t id) {
  Slot& slot = slots_[slot_of(token, {})];
  if (slot.text != nullptr) return false;
  // An empty view may point nowhere; a slot that is taken may not.
  slot = {token.data() != nullptr ? token.data() : "", static_cast<uint32_t>(token.size()), id};
  ++size_;
  return true;
}

int32_t TokenizerVocabulary::find(std::string_view left, std::string_view right) const {
  return slots_[slot_of(left, right)].id;
}

}  // namespace trireme::text
