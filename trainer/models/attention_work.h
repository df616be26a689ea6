// What the GPU attention kernels are to do, laid out by the host as one block of 32-bit words: a header,
// then items, merges and spans. One copy takes it to the device, and kernels find every part through the
// header: a captured launch serves any batch. Torch-free.
//
// The queries of a segment for one kv head are its rows times the heads of the group, in that order. A team
// of threads takes kQueries of them through keys in blocks of kGpuKeyBlock positions. A split is kKeySplit
// positions at a fixed absolute multiple; a query's result is that of its splits, merged in ascending order,
// whether one team went through all of them or several shared them. So how work is cut changes no bit.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trireme::models {

struct Segment;

inline constexpr int kQueries = 8;
inline constexpr int kGpuKeyBlock = 32;
inline constexpr int kKeySplit = 128;

struct AttentionItem {
  int32_t row, position;             // of the segment's first row
  int32_t first_query, num_queries;  // at most kQueries
  int32_t key_begin, key_end;        // positions; begin is a multiple of kKeySplit
  int32_t span, offset;              // where key_begin lies: which span, and how far in it
  int32_t partial;                   // its first row of partial results, or -1: all keys are here
};

/// Queries whose splits have different teams: split s of query q has row partial + s * num_queries + q.
struct AttentionMerge {
  int32_t row, first_query, num_queries, partial, num_splits;
};

struct AttentionWorkHeader {
  int32_t num_items, num_merges;
  int32_t items_at, merges_at, spans_at;  // in words from the header on
};

/// `group` heads share a kv head. At most `partial_rows` rows of partial results are used; segments that no
/// row is left for, and segments of many queries, are not split.
void lay_out_work(std::span<const Segment> segments, int32_t group, int64_t partial_rows,
                  std::vector<int32_t>& words);

/// Rows of partial results that splitting `rows` rows of decode with up to `keys` keys each can use.
int64_t most_partial_rows(int64_t rows, int64_t keys, int32_t group);

}  // namespace trireme::models
