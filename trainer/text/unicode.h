// What tokenizers need to know of characters (tables: tools/make_unicode_tables.py): classes by Unicode 16.0,
// normalization by Unicode 9.0, as Hugging Face's tokenizers have them, so that ids are the same.
#pragma once

#include <string>
#include <string_view>

namespace trireme::text::unicode {

/// General category L*, N*, and the property White_Space. False for kNotUtf8.
bool is_letter(char32_t c);
bool is_number(char32_t c);
bool is_space(char32_t c);
/// Letters, marks, digits, connectors such as "_": what \w is to Rust's regular expressions.
bool is_word(char32_t c);

/// For a library that knows only Unicode 14.0 (PCRE2 10.42): in place of a character that is younger, an
/// older one with the same general category and as many bytes in UTF-8; others as they are.
char32_t stand_in_of_14(char32_t c);

/// Normalization form C. Returns false, and leaves `out` alone, if `text` is in it already (which plain
/// text nearly always is). Bytes that are not UTF-8 are kept.
bool normalize_nfc(std::string_view text, std::string& out);

}  // namespace trireme::text::unicode
