// UTF-8, read code point by code point. Bytes that are not UTF-8 come out one by one, marked as such.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace trireme::text {

struct CodePoint {
  char32_t value;  // kNotUtf8 for a byte that is not part of a well-formed sequence
  uint32_t size;   // bytes; 1 for such a byte
};

inline constexpr char32_t kNotUtf8 = 0xFFFFFFFF;

/// The code point that begins at text[at]; `at` must be below text.size().
CodePoint decode_utf8(std::string_view text, size_t at);
void append_utf8(std::string& text, char32_t code_point);
/// Offset of the first byte that is not UTF-8, or npos.
size_t find_not_utf8(std::string_view text);
/// How many bytes at the end begin a character that more bytes may complete (0 to 3).
size_t unfinished_utf8(std::string_view text);
/// For a message: whole characters of at most `longest` bytes, and "..." if something is left out.
std::string shortened(std::string_view text, size_t longest = 400);
/// Well-formed text is returned as it is; each maximal part of an ill-formed sequence becomes one U+FFFD
/// (the substitution of the Unicode standard, section 3.9, which Python and Rust follow).
std::string replace_not_utf8(std::string text);

}  // namespace trireme::text
