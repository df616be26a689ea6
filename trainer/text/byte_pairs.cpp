#include "trainer/text/byte_pairs.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include "runtime/base/counter_random.h"

namespace trireme::text {
namespace {

std::atomic<uint64_t> next_serial{1};

// Words met lately, each in the one place that its hash gives. 64 bytes a word, 1 MiB a thread.
class RecentWords {
 public:
  static constexpr size_t kMaxBytes = 20, kMaxIds = 8;

  static uint64_t hash_of(std::string_view word, uint64_t serial) {
    uint64_t hash = mix_bits(serial ^ word.size() << 56);
    for (size_t at = 0; at < word.size(); at += 8) {
      uint64_t eight = 0;
      std::memcpy(&eight, word.data() + at, std::min<size_t>(8, word.size() - at));
      hash = mix_bits(hash ^ eight);
    }
    return hash;
  }

  bool find(uint64_t hash, uint64_t serial, std::string_view word, std::vector<int32_t>& ids) const {
    if (slots_ == nullptr) return false;
    const Slot& slot = slots_[hash % kSlots];
    if (slot.serial != serial || slot.num_bytes != word.size() ||
        std::memcmp(slot.bytes, word.data(), word.size()) != 0)
      return false;
    ids.insert(ids.end(), slot.ids, slot.ids + slot.num_ids);
    return true;
  }

  void remember(uint64_t hash, uint64_t serial, std::string_view word, const int32_t* ids, size_t num_ids) {
    if (num_ids > kMaxIds) return;
    if (slots_ == nullptr) slots_ = std::make_unique<Slot[]>(kSlots);
    Slot& slot = slots_[hash % kSlots];
    slot.serial = serial;
    slot.num_bytes = static_cast<uint8_t>(word.size());
    slot.num_ids = static_cast<uint8_t>(num_ids);
    std::copy(word.begin(), word.end(), slot.bytes);
    std::copy(ids, ids + num_ids, slot.ids);
  }

 private:
  static constexpr size_t kSlots = size_t{1} << 14;
  struct Slot {
    uint64_t serial = 0;  // 0: nothing remembered
    uint8_t num_bytes = 0, num_ids = 0;
    char bytes[kMaxBytes];
    int32_t ids[kMaxIds];
  };
  static_assert(sizeof(Slot) == 64);
  std::unique_ptr<Slot[]> slots_;
};

thread_local RecentWords recent_words;

// A merge that may be made; it is stale if the symbols at its place have changed since.
struct Candidate {
  uint64_t order;  // rank, then place: smallest first
  uint64_t pair;
  int32_t merged;
  bool operator<(const Candidate& other) const { return order > other.order; }  // heaps put the largest first
};

struct Symbol {
  int32_t id;  // -1: merged into its left neighbour
  int32_t previous, next;
};

}  // namespace

BytePairs::BytePairs(const std::array<int32_t, 256>& byte_ids, const std::vector<Merge>& merges)
    : byte_ids_(byte_ids), table_(std::bit_ceil(merges.size() * 3 / 2 + 1)), serial_(next_serial++) {
  uint32_t rank = 0;
  for (const Merge& merge : merges) {
    const uint64_t pair = pair_of(merge.left, merge.right);
    slot_of(pair) = {pair, rank++, merge.merged};
  }
}

uint64_t BytePairs::pair_of(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

BytePairs::Entry& BytePairs::slot_of(uint64_t pair) {
  size_t at = mix_bits(pair) & (table_.size() - 1);
  while (table_[at].pair != pair && table_[at].pair != ~uint64_t{0}) at = (at + 1) & (table_.size() - 1);
  return table_[at];
}

const BytePairs::Entry* BytePairs::find(int32_t left, int32_t right) const {
  const uint64_t pair = pair_of(left, right);
  size_t at = mix_bits(pair) & (table_.size() - 1);
  for (; table_[at].pair != ~uint64_t{0}; at = (at + 1) & (table_.size() - 1))
    if (table_[at].pair == pair) return &table_[at];
  return nullptr;
}

void BytePairs::encode_word(std::string_view word, std::vector<int32_t>& ids) const {
  if (word.empty()) return;
  if (word.size() > RecentWords::kMaxBytes) return merge_word(word, ids);
  const uint64_t hash = RecentWords::hash_of(word, serial_);
  if (recent_words.find(hash, serial_, word, ids)) return;
  const size_t before = ids.size();
  merge_word(word, ids);
  recent_words.remember(hash, serial_, word, ids.data() + before, ids.size() - before);
}

void BytePairs::merge_word(std::string_view word, std::vector<int32_t>& ids) const {
  if (!whole_words_.empty()) {
    const auto whole = whole_words_.find(std::string(word));
    if (whole != whole_words_.end()) return ids.push_back(whole->second);
  }
  thread_local std::vector<Symbol> symbols;
  thread_local std::vector<Candidate> heap;
  symbols.clear();
  heap.clear();

  const auto size = static_cast<int32_t>(word.size());
  for (int32_t at = 0; at < size; ++at) {
    const auto byte = static_cast<unsigned char>(word[static_cast<size_t>(at)]);
    symbols.push_back({byte_ids_[byte], at - 1, at + 1 < size ? at + 1 : -1});
  }
  const auto symbol = [](int32_t at) -> Symbol& { return symbols[static_cast<size_t>(at)]; };
  const auto consider = [&](int32_t at) {
    if (at < 0 || symbol(at).next < 0) return;
    const Entry* entry = find(symbol(at).id, symbol(symbol(at).next).id);
    if (entry == nullptr) return;
    heap.push_back({uint64_t{entry->rank} << 32 | static_cast<uint32_t>(at), entry->pair, entry->merged});
    std::push_heap(heap.begin(), heap.end());
  };
  for (int32_t at = 0; at + 1 < size; ++at) consider(at);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end());
    const Candidate best = heap.back();
    heap.pop_back();
    const auto at = static_cast<int32_t>(best.order & 0xFFFFFFFFu);
    Symbol& left = symbol(at);
    if (left.id < 0 || left.next < 0 || pair_of(left.id, symbol(left.next).id) != best.pair) continue;
    Symbol& right = symbol(left.next);
    left.id = best.merged;
    left.next = right.next;
    right.id = -1;
    if (left.next >= 0) symbol(left.next).previous = at;
    consider(left.previous);
    consider(at);
  }
  for (int32_t at = 0; at >= 0; at = symbol(at).next) ids.push_back(symbol(at).id);
}

}  // namespace trireme::text
