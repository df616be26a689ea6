// Text as Python sees it: code points, its white space, its letter cases, what it prints as it is.
// Bytes that are no UTF-8 count as one code point each and pass through unchanged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::jinja {

struct CodePoint {
  char32_t value;
  size_t bytes;
};
/// What a byte that is no UTF-8 decodes to, plus the byte: no space, letter or line end.
constexpr char32_t kStrayByte = 0x110000;
/// The code point that begins at `at` < text.size().
CodePoint decode(std::string_view text, size_t at);
void append_code_point(std::string& text, char32_t point);
size_t count_code_points(std::string_view text);
/// The code points as views of one each.
std::vector<std::string_view> split_code_points(std::string_view text);

bool is_space(char32_t point);
bool is_line_end(char32_t point);
bool is_printable(char32_t point);

/// `chars`: what to strip; white space if absent.
std::string_view strip_left(std::string_view text, std::optional<std::string_view> chars = {});
std::string_view strip_right(std::string_view text, std::optional<std::string_view> chars = {});
inline std::string_view strip(std::string_view text, std::optional<std::string_view> chars = {}) {
  return strip_left(strip_right(text, chars), chars);
}

std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
/// The first letter in title case, the rest in lower case.
std::string capitalize(std::string_view text);
/// The first letter of each word in title case: str.title().
std::string to_title(std::string_view text);
bool is_cased(char32_t point);
bool is_upper(std::string_view text);
bool is_lower(std::string_view text);

bool is_utf8(std::string_view text);

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);

}  // namespace trireme::jinja
