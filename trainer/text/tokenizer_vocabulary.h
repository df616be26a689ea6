// The tokens of a vocabulary, found by their text: a table without a node per token, since reading a
// vocabulary looks up every token and three for every merge.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace trireme::text {

class TokenizerVocabulary {
 public:
  /// The texts must outlive the table. At most `num_tokens` are added.
  explicit TokenizerVocabulary(size_t num_tokens);
  /// Returns false if the token is there already.
  bool add(std::string_view token, int32_t id);
  /// The id, or -1.
  int32_t find(std::string_view token) const { return find(token, {}); }
  /// The id of the two texts in a row, or -1.
  int32_t find(std::string_view left, std::string_view right) const;
  size_t size() const { return size_; }

 private:
  struct Slot {
    const char* text = nullptr;  // nullptr: free
    uint32_t num_bytes = 0;
    int32_t id = -1;
  };
  size_t slot_of(std::string_view left, std::string_view right) const;

  std::vector<Slot> slots_;  // open addressing, a power of two
  size_t size_ = 0;
};

}  // namespace trireme::text
