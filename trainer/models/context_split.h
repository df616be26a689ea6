// Which rows of a batch, and which keys, each of several ranks has that compute it together (context
// parallelism). Arithmetic on row numbers; all ranks come to the same answers.
//
// Ranks have stretches of a batch's rows, as many as rows_of_ranks() says. deal_rows() brings a batch in an
// order in which such stretches are even work: of every segment each rank has a piece near its beginning and
// one near its end, so that rows that see few keys and rows that see many come together.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/models/forward_batch.h"

namespace trireme::models {

/// The rows of each rank: T shared out evenly, the first ranks have one more.
std::vector<int64_t> rows_of_ranks(int64_t rows, int num_ranks);

/// Puts the rows of a batch for training (a row's slot is the row itself) in the order of the ranks that
/// compute them; a segment becomes several. -> where each row is now. For one rank nothing changes.
std::vector<int32_t> deal_rows(ForwardBatch& batch, int num_ranks);

/// Keys that pass from their ranks to all ranks at one time: those at positions [begin, end) of any history.
/// Both are multiples of kKeyBlock (end may be beyond the last position), so windows in ascending order bring
/// every row its blocks of keys in the order in which one rank has them.
struct KeyWindow {
  int32_t begin = 0, end = 0;
  std::vector<int64_t> counts;  // how many of its rows each rank sends
  std::vector<int64_t> sent;    // those of this rank, counted from its first
  /// This rank's rows that see keys of the window. A segment's spans hold no more than those: the rows that
  /// were sent, in order of ranks, are the slots.
  std::vector<Segment> segments;
};

/// Windows of at most `most_rows` rows, or of one kKeyBlock of positions where that is more.
std::vector<KeyWindow> key_windows(const ForwardBatch& batch, int num_ranks, int rank, int64_t most_rows);

}  // namespace trireme::models
