#include "trainer/text/utf8.h"

namespace trireme::text {
namespace {

struct Lead {
  uint32_t size;            // of the sequence, 0: no sequence begins with this byte
  unsigned char low, high;  // bounds of the second byte: no overlong forms, no surrogates, at most U+10FFFF
};

constexpr Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

// How many bytes from `at` begin a sequence correctly: lead.size of them if it is whole.
uint32_t correct_bytes(std::string_view text, size_t at, Lead lead) {
  uint32_t n = 1;
  for (; n < lead.size && at + n < text.size(); ++n) {
    const auto byte = static_cast<unsigned char>(text[at + n]);
    const unsigned char low = n == 1 ? lead.low : 0x80, high = n == 1 ? lead.high : 0xBF;
    if (byte < low || byte > high) break;
  }
  return n;
}

}  // namespace

CodePoint decode_utf8(std::string_view text, size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  if (first < 0x80) return {first, 1};
  const Lead lead = lead_of(first);
  if (lead.size == 0 || correct_bytes(text, at, lead) < lead.size) return {kNotUtf8, 1};
  char32_t value = first & (0x7Fu >> lead.size);
  for (uint32_t n = 1; n < lead.size; ++n)
    value = value << 6 | (static_cast<unsigned char>(text[at + n]) & 0x3Fu);
  return {value, lead.size};
}

void append_utf8(std::string& text, char32_t c) {
  const auto tail = [&](int shift) { text += static_cast<char>(0x80 | (c >> shift & 0x3F)); };
  if (c < 0x80) {
    text += static_cast<char>(c);
  } else if (c < 0x800) {
    text += static_cast<char>(0xC0 | c >> 6);
    tail(0);
  } else if (c < 0x10000) {
    text += static_cast<char>(0xE0 | c >> 12);
    tail(6), tail(0);
  } else {
    text += static_cast<char>(0xF0 | c >> 18);
    tail(12), tail(6), tail(0);
  }
}

size_t find_not_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text, at);
    if (c.value == kNotUtf8) return at;
    at += c.size;
  }
  return std::string_view::npos;
}

size_t unfinished_utf8(std::string_view text) {
  for (size_t size = 1; size <= 3 && size <= text.size(); ++size) {
    const size_t at = text.size() - size;
    const Lead lead = lead_of(static_cast<unsigned char>(text[at]));
    if (lead.size == 1) return 0;
    if (lead.size > 1) return lead.size > size && correct_bytes(text, at, lead) == size ? size : 0;
  }
  return 0;
}

std::string shortened(std::string_view text, size_t longest) {
  if (text.size() <= longest) return std::string(text);
  text = text.substr(0, longest);
  return std::string(text.substr(0, longest - unfinished_utf8(text))) + "...";
}

std::string replace_not_utf8(std::string text) {
  size_t at = find_not_utf8(text);
  if (at == std::string::npos) return text;
  std::string out = text.substr(0, at);
  while (at < text.size()) {
    const CodePoint c = decode_utf8(text, at);
    if (c.value != kNotUtf8) {
      out.append(text, at, c.size);
      at += c.size;
      continue;
    }
    const Lead lead = lead_of(static_cast<unsigned char>(text[at]));
    at += lead.size == 0 ? 1 : correct_bytes(text, at, lead);
    append_utf8(out, 0xFFFD);
  }
  return out;
}

}  // namespace trireme::text
