// Byte-pair encoding of one word: starting from its bytes, the pair of neighbours whose merge was learned
// first is merged, the leftmost of equals, until no pair has a merge.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace trireme::text {

struct Merge {
  int32_t left, right, merged;
};

class BytePairs {
 public:
  /// byte_ids: the id of each byte; merges in the order learned (of a pair that comes twice, the last
  /// counts).
  BytePairs(const std::array<int32_t, 256>& byte_ids, const std::vector<Merge>& merges);
  /// Words that have an id of their own, whatever the merges say ("ignore_merges").
  void set_whole_words(std::unordered_map<std::string, int32_t> words) { whole_words_ = std::move(words); }

  /// Appends the word's ids. Any thread; recent words are remembered per thread, in bounded memory.
  void encode_word(std::string_view word, std::vector<int32_t>& ids) const;

 private:
  struct Entry {
    uint64_t pair = ~uint64_t{0};  // left and right id; all ones: free
    uint32_t rank = 0;
    int32_t merged = 0;
  };
  static uint64_t pair_of(int32_t left, int32_t right);
  Entry& slot_of(uint64_t pair);
  const Entry* find(int32_t left, int32_t right) const;
  void merge_word(std::string_view word, std::vector<int32_t>& ids) const;

  std::array<int32_t, 256> byte_ids_;
  std::vector<Entry> table_;  // open addressing, a power of two
  std::unordered_map<std::string, int32_t> whole_words_;
  uint64_t serial_;  // tells this vocabulary's words from those of others in a thread's memory
};

}  // namespace trireme::text
