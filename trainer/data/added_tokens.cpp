#include "trainer/data/added_tokens.h"

#include <algorithm>

#include "trainer/data/unicode.h"
#include "trainer/data/utf8.h"

namespace trireme::data {
namespace {

// Where the white space that ends text[0, end) begins.
size_t blanks_before(std::string_view text, size_t end) {
  size_t begin = end;
  while (begin > 0) {
    size_t at = begin - 1;
    while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
    const CodePoint c = decode_utf8(text, at);
    if (at + c.size != begin || !unicode::is_space(c.value)) break;
    begin = at;
  }
  return begin;
}

size_t blanks_after(std::string_view text, size_t at) {
  while (at < text.size()) {
    const CodePoint c = decode_utf8(text, at);
    if (!unicode::is_space(c.value)) break;
    at += c.size;
  }
  return at;
}

}  // namespace

void AddedTokens::add(const AddedToken& token) {
  auto& places = by_first_byte_[static_cast<unsigned char>(token.content[0])];
  const auto longer = [&](uint32_t place) { return tokens_[place].content.size() >= token.content.size(); };
  places.insert(std::find_if_not(places.begin(), places.end(), longer),
                static_cast<uint32_t>(tokens_.size()));
  tokens_.push_back(token);
}

const AddedToken* AddedTokens::match(std::string_view rest, bool with_special) const {
  for (const uint32_t place : by_first_byte_[static_cast<unsigned char>(rest[0])]) {
    const AddedToken& token = tokens_[place];
    if (rest.starts_with(token.content) && (with_special || !token.special)) return &token;
  }
  return nullptr;
}

void AddedTokens::split(std::string_view text, bool with_special, std::vector<TextPart>& parts) const {
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const AddedToken* token = match(text.substr(at), with_special);
    if (token == nullptr) {
      ++at;
      continue;
    }
    size_t from = at, to = at + token->content.size();
    if (token->lstrip) from = std::max(begin, blanks_before(text, from));
    if (token->rstrip) to = blanks_after(text, to);
    if (from > begin) parts.push_back({-1, text.substr(begin, from - begin)});
    parts.push_back({token->id, text.substr(from, to - from)});
    begin = at = to;
  }
  if (begin < text.size()) parts.push_back({-1, text.substr(begin)});
}

}  // namespace trireme::data
