// Byte-level vocabularies write each byte as one printable character: printable Latin-1 characters stand
// for themselves, the other bytes, in order, for U+0100, U+0101, ... ("Ġ" is a space).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace trireme::text {

/// The character, in UTF-8, that stands for `byte`.
const std::string& alphabet_of(unsigned char byte);
/// "Ġthe" -> " the"; nullopt if a character stands for no byte.
std::optional<std::string> bytes_of(std::string_view alphabet_text);

}  // namespace trireme::text
