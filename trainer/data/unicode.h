// What tokenizers need to know of characters (tables: tools/make_unicode_tables.py): classes by Unicode 16.0,
// normalization by Unicode 9.0, as Hugging Face's tokenizers have them, so that ids are the same.
#pragma once

#include <string>
#include <string_view>

namespace trireme::data::unicode {

/// General category L*, N*, and the property White_Space. False for kNotUtf8.
bool is_letter(char32_t c);
bool is_number(char32_t c);
bool is_space(char32_t c);

/// Normalization form C. Returns false, and leaves `out` alone, if `text` is in it already (which plain
/// text nearly always is). Bytes that are not UTF-8 are kept.
bool normalize_nfc(std::string_view text, std::string& out);

}  // namespace trireme::data::unicode
