#include "trainer/text/unicode.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "trainer/text/utf8.h"

namespace trireme::text::unicode {
namespace {

struct Range {
  char32_t first, last;
};
struct StandIn {
  char32_t first, last, code;
};
struct ClassRange {
  char32_t first, last;
  uint8_t combining_class;
};
struct PairDecomposition {
  char32_t code, first, second;
  bool composes;  // false: excluded from composition
};
struct SingleDecomposition {
  char32_t code, to;
};

#include "trainer/text/unicode_tables.inc"

constexpr char32_t kNumCodes = 0x110000;
constexpr uint8_t kLetter = 1, kNumber = 2, kSpace = 4;
constexpr uint8_t kNfcMatters = 8;  // may change, or change others, under form C
constexpr uint8_t kWordCharacter = 16, kHasStandIn = 32;

// Hangul syllables are composed by arithmetic: leading consonant, vowel, and perhaps a trailing consonant.
constexpr char32_t kSyllables = 0xAC00, kLeading = 0x1100, kVowels = 0x1161, kTrailing = 0x11A7;
constexpr char32_t kNumLeading = 19, kNumVowels = 21, kNumTrailing = 28;
constexpr char32_t kNumSyllables = kNumLeading * kNumVowels * kNumTrailing;

uint64_t pair_key(char32_t first, char32_t second) {
  return uint64_t{first} << 32 | second;
}

struct Tables {
  std::vector<uint8_t> properties = std::vector<uint8_t>(kNumCodes);  // kLetter | kNumber | ...
  std::unordered_map<char32_t, uint8_t> combining_classes;
  std::unordered_map<char32_t, std::pair<char32_t, char32_t>> decompositions;  // second 0: none
  std::unordered_map<uint64_t, char32_t> compositions;

  void mark(char32_t first, char32_t last, uint8_t property) {
    for (char32_t c = first; c <= last; ++c) properties[c] |= property;
  }

  Tables() {
    for (const Range& range : kLetters) mark(range.first, range.last, kLetter);
    for (const Range& range : kNumbers) mark(range.first, range.last, kNumber);
    for (const Range& range : kSpaces) mark(range.first, range.last, kSpace);
    for (const Range& range : kWord) mark(range.first, range.last, kWordCharacter);
    for (const StandIn& range : kStandIns) mark(range.first, range.last, kHasStandIn);
    for (const ClassRange& range : kCombiningClasses)
      for (char32_t c = range.first; c <= range.last; ++c) {
        combining_classes[c] = range.combining_class;
        mark(c, c, kNfcMatters);
      }
    for (const PairDecomposition& pair : kPairs) {
      decompositions[pair.code] = {pair.first, pair.second};
      if (pair.composes) compositions[pair_key(pair.first, pair.second)] = pair.code;
      if (pair.composes) mark(pair.second, pair.second, kNfcMatters);
      if (!pair.composes) mark(pair.code, pair.code, kNfcMatters);
    }
    for (const SingleDecomposition& single : kSingles) {
      decompositions[single.code] = {single.to, 0};
      mark(single.code, single.code, kNfcMatters);
    }
    mark(kVowels, kVowels + kNumVowels - 1, kNfcMatters);
    mark(kTrailing + 1, kTrailing + kNumTrailing - 1, kNfcMatters);
  }

  uint8_t combining_class(char32_t c) const {
    const auto found = combining_classes.find(c);
    return found == combining_classes.end() ? 0 : found->second;
  }
};

const Tables& tables() {
  static const Tables instance;
  return instance;
}

bool has(char32_t c, uint8_t property) {
  return c < kNumCodes && (tables().properties[c] & property) != 0;
}

// Bytes that are not UTF-8 pass through normalization as values above every code point.
constexpr char32_t kRawByte = 0x80000000;

struct Element {
  char32_t code;
  uint8_t combining_class;
};

void decompose(char32_t c, std::vector<Element>& out) {
  if (c >= kSyllables && c < kSyllables + kNumSyllables) {
    const char32_t index = c - kSyllables;
    out.push_back({kLeading + index / (kNumVowels * kNumTrailing), 0});
    out.push_back({kVowels + index / kNumTrailing % kNumVowels, 0});
    if (index % kNumTrailing != 0) out.push_back({kTrailing + index % kNumTrailing, 0});
    return;
  }
  const auto found = tables().decompositions.find(c);
  if (found == tables().decompositions.end()) return out.push_back({c, tables().combining_class(c)});
  decompose(found->second.first, out);
  if (found->second.second != 0) decompose(found->second.second, out);
}

// 0 if the two do not compose.
char32_t compose(char32_t first, char32_t second) {
  if (first >= kLeading && first < kLeading + kNumLeading && second >= kVowels &&
      second < kVowels + kNumVowels)
    return kSyllables + ((first - kLeading) * kNumVowels + (second - kVowels)) * kNumTrailing;
  if (first >= kSyllables && first < kSyllables + kNumSyllables && (first - kSyllables) % kNumTrailing == 0 &&
      second > kTrailing && second < kTrailing + kNumTrailing)
    return first + (second - kTrailing);
  const auto found = tables().compositions.find(pair_key(first, second));
  return found == tables().compositions.end() ? 0 : found->second;
}

// Marks that follow a character go in the order of their classes; equal ones keep their order.
void order_marks(std::vector<Element>& elements) {
  for (auto begin = elements.begin(); begin != elements.end();) {
    if (begin->combining_class == 0) {
      ++begin;
      continue;
    }
    const auto end =
        std::find_if(begin, elements.end(), [](const Element& e) { return e.combining_class == 0; });
    std::stable_sort(
        begin, end, [](const Element& a, const Element& b) { return a.combining_class < b.combining_class; });
    begin = end;
  }
}

// The canonical composition algorithm of the Unicode standard, section 3.11, in place.
void compose_all(std::vector<Element>& elements) {
  size_t size = 0;
  constexpr size_t kNone = ~size_t{0};
  size_t starter = kNone;
  for (const Element& element : elements) {
    if (starter != kNone) {
      // Blocked if anything stands between that is a starter or has a class not below its own.
      const bool adjacent = size == starter + 1;
      const bool blocked = !adjacent && elements[size - 1].combining_class >= element.combining_class;
      const char32_t both = blocked ? 0 : compose(elements[starter].code, element.code);
      if (both != 0) {
        elements[starter].code = both;
        continue;
      }
    }
    if (element.combining_class == 0) starter = size;
    elements[size++] = element;
  }
  elements.resize(size);
}

}  // namespace

bool is_letter(char32_t c) {
  return has(c, kLetter);
}
bool is_number(char32_t c) {
  return has(c, kNumber);
}
bool is_space(char32_t c) {
  return has(c, kSpace);
}

bool is_word(char32_t c) {
  return has(c, kWordCharacter);
}

char32_t stand_in_of_14(char32_t c) {
  if (!has(c, kHasStandIn)) return c;
  return std::upper_bound(std::begin(kStandIns), std::end(kStandIns), c,
                          [](char32_t code, const StandIn& range) { return code <= range.last; })
      ->code;
}

bool normalize_nfc(std::string_view text, std::string& out) {
  bool matters = false;
  for (size_t at = 0; at < text.size() && !matters;) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const CodePoint c = decode_utf8(text, at);
    matters = has(c.value, kNfcMatters);
    at += c.size;
  }
  if (!matters) return false;

  std::vector<Element> elements;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text, at);
    if (c.value == kNotUtf8)
      elements.push_back({kRawByte | static_cast<unsigned char>(text[at]), 0});
    else
      decompose(c.value, elements);
    at += c.size;
  }
  order_marks(elements);
  compose_all(elements);
  std::string normalized;
  for (const Element& element : elements) {
    if (element.code >= kRawByte)
      normalized += static_cast<char>(element.code & 0xFF);
    else
      append_utf8(normalized, element.code);
  }
  if (normalized == text) return false;
  out = std::move(normalized);
  return true;
}

}  // namespace trireme::text::unicode
