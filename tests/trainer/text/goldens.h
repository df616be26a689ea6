// What the tests share with tools/make_goldens/tokenizer.py, which wrote the files in goldens/.
#pragma once

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/counter_random.h"
#include "runtime/base/files.h"
#include "trainer/text/utf8.h"

namespace trireme::text {

inline nlohmann::json read_golden(const std::string& name) {
  return nlohmann::json::parse(
      files::read(std::string(std::getenv("TRIREME_SOURCE_DIR")) + "/tests/trainer/text/goldens/" + name));
}

/// The file in TRIREME_TEST_DATA, or "" where there is none.
inline std::string test_data(const std::string& name) {
  const char* folder = std::getenv("TRIREME_TEST_DATA");
  const std::string path = folder == nullptr ? "" : std::string(folder) + "/" + name;
  return std::filesystem::exists(path) ? path : "";
}

class Crc32 {
 public:
  void add(std::string_view bytes) {
    static const std::array<uint32_t, 256> table = make_table();
    for (const char c : bytes) crc_ = crc_ >> 8 ^ table[(crc_ ^ static_cast<unsigned char>(c)) & 0xFF];
  }
  void add_number(uint32_t number) {
    char bytes[4];
    std::memcpy(bytes, &number, 4);
    add({bytes, 4});
  }
  uint32_t value() const { return ~crc_; }

 private:
  static std::array<uint32_t, 256> make_table() {
    std::array<uint32_t, 256> table{};
    for (uint32_t byte = 0; byte < 256; ++byte) {
      table[byte] = byte;
      for (int bit = 0; bit < 8; ++bit)
        table[byte] = table[byte] >> 1 ^ (0xEDB88320u & (0u - (table[byte] & 1u)));
    }
    return table;
  }

  uint32_t crc_ = ~0u;
};

/// The same text as fuzz_text of the script.
inline std::string fuzz_text(const nlohmann::json& alphabet, uint64_t seed, uint64_t index) {
  std::string text;
  const uint64_t length = 1 + below(random_bits(seed, index, 0), 24);
  for (uint64_t i = 1; i <= length; ++i) {
    const auto& item = alphabet[below(random_bits(seed, index, 2 * i), alphabet.size())];
    if (item.is_string()) {
      text += item.get<std::string>();
      continue;
    }
    const auto first = item[0].get<uint32_t>(), last = item[1].get<uint32_t>();
    append_utf8(text,
                first + static_cast<uint32_t>(below(random_bits(seed, index, 2 * i + 1), last - first + 1)));
  }
  return text;
}

/// Code points in block `block` of 4,096, in UTF-8, without surrogates.
inline std::vector<std::string> codes_of_block(uint32_t block) {
  std::vector<std::string> codes;
  for (char32_t c = block * 0x1000; c < (block + 1) * 0x1000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    append_utf8(codes.emplace_back(), c);
  }
  return codes;
}

/// Calls add(crc, text) for each text of a fuzz section and compares its blocks' sums.
template <typename Add>
std::vector<size_t> blocks_that_differ(const nlohmann::json& fuzz, Add add) {
  std::vector<size_t> differ;
  const auto block = fuzz["block"].get<uint64_t>(), seed = fuzz["seed"].get<uint64_t>();
  for (size_t i = 0; i < fuzz["hashes"].size(); ++i) {
    Crc32 crc;
    for (uint64_t index = i * block; index < (i + 1) * block; ++index)
      add(crc, fuzz_text(fuzz["alphabet"], seed, index));
    if (crc.value() != fuzz["hashes"][i].get<uint32_t>()) differ.push_back(i);
  }
  return differ;
}

}  // namespace trireme::text
