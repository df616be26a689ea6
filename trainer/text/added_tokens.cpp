#include "trainer/text/added_tokens.h"

#include <algorithm>

#include "trainer/text/unicode.h"
#include "trainer/text/utf8.h"

namespace trireme::text {
namespace {

// The code point that ends text[0, end), which is not empty.
CodePoint code_point_before(std::string_view text, size_t end) {
  size_t at = end - 1;
  while (at > 0 && end - at < 4 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  const CodePoint c = decode_utf8(text.substr(0, end), at);
  return at + c.size == end ? c : CodePoint{kNotUtf8, 1};
}

// Where the white space that ends text[0, end) begins.
size_t blanks_before(std::string_view text, size_t end) {
  while (end > 0) {
    const CodePoint c = code_point_before(text, end);
    if (!unicode::is_space(c.value)) break;
    end -= c.size;
  }
  return end;
}

size_t blanks_after(std::string_view text, size_t at) {
  while (at < text.size()) {
    const CodePoint c = decode_utf8(text, at);
    if (!unicode::is_space(c.value)) break;
    at += c.size;
  }
  return at;
}

bool adjoins_word(std::string_view text, size_t begin, size_t end) {
  return (begin > 0 && unicode::is_word(code_point_before(text, begin).value)) ||
         (end < text.size() && unicode::is_word(decode_utf8(text, end).value));
}

}  // namespace

void AddedTokens::add(const AddedToken& token) {
  auto& places = by_first_byte_[static_cast<unsigned char>(token.content[0])];
  const auto longer = [&](uint32_t place) { return tokens_[place].content.size() >= token.content.size(); };
  places.insert(std::find_if_not(places.begin(), places.end(), longer),
                static_cast<uint32_t>(tokens_.size()));
  tokens_.push_back(token);
}

const AddedToken* AddedTokens::match(std::string_view rest) const {
  for (const uint32_t place : by_first_byte_[static_cast<unsigned char>(rest[0])])
    if (rest.starts_with(tokens_[place].content)) return &tokens_[place];
  return nullptr;
}

void AddedTokens::split(std::string_view text, bool with_special, std::vector<TextPart>& parts) const {
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const AddedToken* token = match(text.substr(at));
    if (token == nullptr) {
      ++at;
      continue;
    }
    size_t from = at, to = at += token->content.size();
    if (token->special && !with_special) continue;
    if (token->single_word && adjoins_word(text, from, to)) continue;
    if (token->lstrip) from = std::max(begin, blanks_before(text, from));
    if (token->rstrip) to = blanks_after(text, to);
    if (from > begin) parts.push_back({-1, text.substr(begin, from - begin)});
    if (to > from) parts.push_back({token->id, text.substr(from, to - from)});
    begin = to;
  }
  if (begin < text.size()) parts.push_back({-1, text.substr(begin)});
}

}  // namespace trireme::text
