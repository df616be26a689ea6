#include "trainer/models/attention_work.h"

#include <algorithm>
#include <cstring>

#include "trainer/models/forward_batch.h"

namespace trireme::models {
namespace {

// A segment of more queries keeps enough teams busy without splitting its keys.
constexpr int32_t kMostSplitQueries = 4 * kQueries;

int64_t splits_of(int64_t keys) {
  return (keys + kKeySplit - 1) / kKeySplit;
}

template <typename T>
void append(const std::vector<T>& from, std::vector<int32_t>& words) {
  const size_t at = words.size();
  words.resize(at + from.size() * sizeof(T) / sizeof(int32_t));
  if (!from.empty()) std::memcpy(&words[at], from.data(), from.size() * sizeof(T));
}

class Layout {
 public:
  Layout(int32_t group, int64_t partial_rows) : group_(group), partial_rows_(partial_rows) {}

  void add(const Segment& segment) {
    const int32_t queries = segment.length * group_;
    int64_t needed = 0;
    for (int32_t q = 0; q < queries; q += kQueries)
      needed += splits_of(keys_of(segment, last_query(q, queries))) * (last_query(q, queries) - q + 1);
    const bool split = segment.position + segment.length > kKeySplit && queries <= kMostSplitQueries &&
                       used_ + needed <= partial_rows_;
    for (int32_t q = 0; q < queries; q += kQueries) {
      const int32_t last = last_query(q, queries), keys = keys_of(segment, last);
      add_tile(segment, q, last - q + 1, keys, split && keys > kKeySplit);
    }
    spans_.insert(spans_.end(), segment.spans.begin(), segment.spans.end());
  }

  void write(std::vector<int32_t>& words) const {
    AttentionWorkHeader header{};
    constexpr auto size_of = [](size_t bytes) { return static_cast<int32_t>(bytes / sizeof(int32_t)); };
    header.num_items = static_cast<int32_t>(items_.size());
    header.num_merges = static_cast<int32_t>(merges_.size());
    header.items_at = size_of(sizeof header);
    header.merges_at = header.items_at + header.num_items * size_of(sizeof(AttentionItem));
    header.spans_at = header.merges_at + header.num_merges * size_of(sizeof(AttentionMerge));
    append(std::vector{header}, words);
    append(items_, words);
    append(merges_, words);
    append(spans_, words);
  }

 private:
  static int32_t last_query(int32_t first, int32_t queries) {
    return std::min(first + kQueries, queries) - 1;
  }
  int32_t keys_of(const Segment& segment, int32_t query) const {
    return segment.position + query / group_ + 1;
  }

  void add_tile(const Segment& segment, int32_t first, int32_t count, int32_t keys, bool split) {
    AttentionItem item{segment.row, segment.position, first, count, 0, keys, 0, 0, -1};
    item.span = static_cast<int32_t>(spans_.size());
    if (!split) {
      items_.push_back(item);
      return;
    }
    const auto splits = static_cast<int32_t>(splits_of(keys));
    merges_.push_back({segment.row, first, count, used_, splits});
    size_t span = 0;  // of the split's first key
    for (int32_t s = 0; s < splits; ++s) {
      item.key_begin = s * kKeySplit;
      item.key_end = std::min(keys, item.key_begin + kKeySplit);
      item.partial = used_;
      items_.push_back(item);
      used_ += count;
      // On to the next split's first key; past the last one nobody asks.
      item.offset += kKeySplit;
      while (span + 1 < segment.spans.size() && item.offset >= segment.spans[span].length)
        item.offset -= segment.spans[span++].length, ++item.span;
    }
  }

  const int32_t group_;
  const int64_t partial_rows_;
  int32_t used_ = 0;
  std::vector<AttentionItem> items_;
  std::vector<AttentionMerge> merges_;
  std::vector<SlotSpan> spans_;
};

}  // namespace

void lay_out_work(std::span<const Segment> segments, int32_t group, int64_t partial_rows,
                  std::vector<int32_t>& words) {
  Layout layout(group, partial_rows);
  for (const Segment& segment : segments) layout.add(segment);
  layout.write(words);
}

int64_t most_partial_rows(int64_t rows, int64_t keys, int32_t group) {
  return rows * splits_of(keys) * group;
}

}  // namespace trireme::models
