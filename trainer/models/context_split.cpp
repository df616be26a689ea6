#include "trainer/models/context_split.h"

#include <algorithm>
#include <numeric>

#include "runtime/base/error.h"
#include "trainer/models/cpu_kernels.h"

namespace trireme::models {
namespace {

/// Rows of one segment that stay together.
struct Piece {
  size_t segment;
  int32_t offset, length;  // of its rows
};

// The pieces of each rank. Rows that do not divide go to one rank after the other, whatever segment they are
// of: so ranks differ by one row at most.
std::vector<std::vector<Piece>> pieces_of_ranks(const std::vector<Segment>& segments, int num_ranks) {
  std::vector<std::vector<Piece>> result(static_cast<size_t>(num_ranks));
  int64_t extra = 0;
  for (size_t s = 0; s < segments.size(); ++s) {
    std::vector<int32_t> rows(result.size(), segments[s].length / num_ranks);
    for (int32_t i = 0; i < segments[s].length % num_ranks; ++i)
      ++rows[static_cast<size_t>(extra++ % num_ranks)];
    int32_t offset = 0;
    const auto give = [&](size_t rank, int32_t length) {
      if (length == 0) return;
      auto& pieces = result[rank];
      if (!pieces.empty() && pieces.back().segment == s &&
          pieces.back().offset + pieces.back().length == offset)
        pieces.back().length += length;
      else
        pieces.push_back({s, offset, length});
      offset += length;
    };
    for (size_t r = 0; r < rows.size(); ++r) give(r, (rows[r] + 1) / 2);
    for (size_t r = rows.size(); r-- > 0;) give(r, rows[r] / 2);
  }
  return result;
}

void append(std::vector<SlotSpan>& spans, int32_t slot) {
  if (!spans.empty() && spans.back().slot + spans.back().length == slot)
    ++spans.back().length;
  else
    spans.push_back({slot, 1});
}

// body(slot, position) for the keys of a segment at positions [begin, end), as far as it has them.
template <typename Body>
void for_keys(const Segment& segment, int32_t begin, int32_t end, const Body& body) {
  end = std::min(end, segment.position + segment.length);
  int32_t position = 0;
  for (const SlotSpan& span : segment.spans) {
    for (int32_t p = std::max(begin, position); p < std::min(end, position + span.length); ++p)
      body(span.slot + p - position, p);
    position += span.length;
  }
}

}  // namespace

std::vector<int64_t> rows_of_ranks(int64_t rows, int num_ranks) {
  std::vector<int64_t> counts;
  for (int r = 0; r < num_ranks; ++r) counts.push_back(rows / num_ranks + (r < rows % num_ranks ? 1 : 0));
  return counts;
}

std::vector<int32_t> deal_rows(ForwardBatch& batch, int num_ranks) {
  std::vector<int32_t> place(batch.tokens.size());
  std::iota(place.begin(), place.end(), 0);
  if (num_ranks == 1) return place;
  const ForwardBatch before = std::move(batch);
  batch = {};
  const auto ranks = pieces_of_ranks(before.segments, num_ranks);
  int32_t row = 0;
  for (const auto& pieces : ranks)
    for (const Piece& piece : pieces)
      for (int32_t i = 0; i < piece.length; ++i)
        place[static_cast<size_t>(before.segments[piece.segment].row + piece.offset + i)] = row++;
  batch.tokens.resize(place.size());
  batch.positions.resize(place.size());
  batch.slots.resize(place.size());
  for (size_t r = 0; r < place.size(); ++r) {
    TRIREME_CHECK(before.slots[r] == static_cast<int32_t>(r), "row {} of a batch for training has slot {}", r,
                  before.slots[r]);
    const auto to = static_cast<size_t>(place[r]);
    batch.tokens[to] = before.tokens[r];
    batch.positions[to] = before.positions[r];
    batch.slots[to] = place[r];
  }
  for (const auto& pieces : ranks)
    for (const Piece& piece : pieces) {
      const Segment& whole = before.segments[piece.segment];
      Segment part{place[static_cast<size_t>(whole.row + piece.offset)],
                   piece.length,
                   whole.position + piece.offset,
                   {}};
      for_keys(whole, 0, part.position + part.length,
               [&](int32_t slot, int32_t) { append(part.spans, place[static_cast<size_t>(slot)]); });
      batch.segments.push_back(std::move(part));
    }
  return place;
}

std::vector<KeyWindow> key_windows(const ForwardBatch& batch, int num_ranks, int rank, int64_t most_rows) {
  const std::vector<int64_t> shares = rows_of_ranks(batch.num_rows(), num_ranks);
  std::vector<int64_t> in_block;  // rows at each block of positions
  for (const int32_t position : batch.positions) {
    const auto block = static_cast<size_t>(position / kKeyBlock);
    if (block >= in_block.size()) in_block.resize(block + 1);
    ++in_block[block];
  }
  std::vector<KeyWindow> windows;
  int64_t rows = 0;
  for (size_t b = 0; b < in_block.size(); ++b) {
    const auto begin = static_cast<int32_t>(b) * kKeyBlock;
    if (windows.empty() || rows + in_block[b] > most_rows) {
      windows.push_back({.begin = begin, .end = begin, .counts = {}, .sent = {}, .segments = {}});
      rows = 0;
    }
    windows.back().end = begin + kKeyBlock;
    rows += in_block[b];
  }

  std::vector<int32_t> slot(batch.tokens.size());
  const int64_t first = std::accumulate(shares.begin(), shares.begin() + rank, int64_t{0}),
                last = first + shares[static_cast<size_t>(rank)];
  for (KeyWindow& window : windows) {
    int32_t next = 0;
    int64_t row = 0;
    for (int r = 0; r < num_ranks; ++r) {
      window.counts.push_back(0);
      for (int64_t i = 0; i < shares[static_cast<size_t>(r)]; ++i, ++row) {
        const int32_t position = batch.positions[static_cast<size_t>(row)];
        if (position < window.begin || position >= window.end) continue;
        slot[static_cast<size_t>(row)] = next++;
        ++window.counts.back();
        if (r == rank) window.sent.push_back(i);
      }
    }
    for (const Segment& whole : batch.segments) {
      const auto begin = static_cast<int32_t>(std::max<int64_t>(first, whole.row)),
                 end = static_cast<int32_t>(std::min<int64_t>(last, whole.row + whole.length));
      if (begin >= end) continue;
      Segment part{begin - static_cast<int32_t>(first), end - begin, whole.position + begin - whole.row, {}};
      if (part.position + part.length <= window.begin) continue;
      for_keys(whole, window.begin, std::min(window.end, part.position + part.length),
               [&](int32_t key, int32_t) { append(part.spans, slot[static_cast<size_t>(key)]); });
      window.segments.push_back(std::move(part));
    }
  }
  return windows;
}

}  // namespace trireme::models
