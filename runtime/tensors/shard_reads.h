// Loading: which parts of which files a rank reads to fill its memory, each of its elements once. The files
// are either whole tensors, as Hugging Face keeps them, or what the ranks of some other layout saved.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/tensors/layout.h"

namespace trireme::tensors {

/// Elements of one tensor, the same ones and in the same order on both sides.
struct ShardRead {
  int tensor = 0;
  int file = 0;  // of a saved layout: the number below of the rank that saved it; 0 for whole tensors
  Strided from;  // in that file, or in the whole tensor: elements from its beginning
  int block = 0;
  Strided to;  // in the reader's memory of the block
};

/// From whole tensors, each stored row-major. `rank` of the layout; any other reads nothing.
std::vector<ShardRead> reads_of_tensors(const ShardMap& to, int rank);

/// A rank of a layout saves its memory, block behind block, in one file. Where dp repeats the slices, only
/// the ranks of d = 0 save; so a file's number is (d * pp + p) * tp + t. Elements in the file of (d, p, t),
/// and where a block begins in it.
int64_t file_numel(const ShardMap& saved, int p, int t);
int64_t block_begin(const ShardMap& saved, int p, int t, int block);

/// From such files. Of an element that several files hold, the lowest is read. `to` is of the same tensors.
std::vector<ShardRead> reads_of_shards(const ShardMap& saved, const ShardMap& to, int rank);

}  // namespace trireme::tensors
