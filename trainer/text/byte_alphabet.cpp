#include "trainer/text/byte_alphabet.h"

#include <array>
#include <cstdint>

#include "trainer/text/utf8.h"

namespace trireme::text {
namespace {

constexpr char32_t kEnd = 0x100 + 68;  // 68 bytes are not printable

struct Alphabet {
  std::array<std::string, 256> characters;
  std::array<int16_t, kEnd> bytes;

  Alphabet() {
    bytes.fill(-1);
    char32_t next = 0x100;
    for (char32_t byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
      const char32_t character = printable ? byte : next++;
      append_utf8(characters[byte], character);
      bytes[character] = static_cast<int16_t>(byte);
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet instance;
  return instance;
}

}  // namespace

const std::string& alphabet_of(unsigned char byte) {
  return alphabet().characters[byte];
}

std::optional<std::string> bytes_of(std::string_view alphabet_text) {
  std::string out;
  for (size_t at = 0; at < alphabet_text.size();) {
    const CodePoint c = decode_utf8(alphabet_text, at);
    if (c.value >= kEnd || alphabet().bytes[c.value] < 0) return std::nullopt;
    out += static_cast<char>(alphabet().bytes[c.value]);
    at += c.size;
  }
  return out;
}

}  // namespace trireme::text
