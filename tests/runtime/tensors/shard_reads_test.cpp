#include "runtime/tensors/shard_reads.h"

#include <gtest/gtest.h>

#include "tests/runtime/tensors/random_layouts.h"
#include "tests/runtime/tensors/reshard_oracle.h"

namespace trireme::tensors {
namespace {

using Blocks = std::vector<std::vector<int64_t>>;

// Does the reads with files that hold each element's number; what is left at -2 was never read.
void fill(const std::vector<ShardRead>& reads, const std::function<int64_t(const ShardRead&, int64_t)>& file,
          Blocks& memory) {
  for (const ShardRead& read : reads) {
    ASSERT_EQ(read.from.numel(), read.to.numel());
    Runs target(read.to);
    int64_t at = 0;
    for (Runs source(read.from); !source.done(); source.next())
      for (int64_t e = 0; e < source.length(); ++e) {
        int64_t& element = memory.at(read.block).at(target.offset() + at);
        ASSERT_EQ(element, -2) << "read twice";
        element = file(read, source.offset() + e);
        if (++at == target.length()) target.next(), at = 0;
      }
  }
}

// Every element of the layout in its place, padding left alone.
void expect_filled(const Blocks& memory, const Blocks& expected) {
  for (size_t b = 0; b < expected.size(); ++b)
    for (size_t i = 0; i < expected[b].size(); ++i)
      ASSERT_EQ(memory[b][i], expected[b][i] == -1 ? -2 : expected[b][i])
          << "block " << b << " element " << i;
}

Blocks unread(const Blocks& like) {
  Blocks memory;
  for (const auto& block : like) memory.emplace_back(block.size(), -2);
  return memory;
}

TEST(ShardReads, WholeTensorsFillAnyLayout) {
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(seed);
    RandomLayouts random(seed);
    const auto tensors = random.tensors();
    const Layout layout = random.layout(tensors, 8, "actor");
    const ShardMap map(tensors, layout);
    std::vector<int64_t> bases;
    int64_t total = 0;
    for (const TensorSpec& tensor : tensors) {
      bases.push_back(total);
      total += oracle::numel(tensor);
    }
    const auto expected = oracle::memories(tensors, layout, 8);
    for (int rank = 0; rank < 8; ++rank) {
      Blocks memory = unread(expected[rank]);
      fill(
          reads_of_tensors(map, rank),
          [&](const ShardRead& read, int64_t at) { return bases[read.tensor] + at; }, memory);
      expect_filled(memory, expected[rank]);
    }
  }
}

TEST(ShardReads, WhatAnyLayoutSavedFillsAnyOther) {
  for (uint64_t seed = 0; seed < 2500; ++seed) {
    SCOPED_TRACE(seed);
    RandomLayouts random(seed);
    const auto tensors = random.tensors();
    const int num_ranks = 1 + static_cast<int>(random.below(8));
    const Layout saved = random.layout(tensors, num_ranks, "saved"), to = random.layout(tensors, 8, "actor");
    const ShardMap saved_map(tensors, saved), map(tensors, to);
    std::map<int, std::vector<int64_t>> files;
    for (const auto& [rank, place] : oracle::places(saved)) {
      const auto [d, p, t] = place;
      if (!saved.zero && d > 0) continue;
      auto& file = files[(d * saved.mesh.pp + p) * saved.mesh.tp + t];
      const Blocks blocks = oracle::memory(tensors, saved, d, p, t);
      for (size_t b = 0; b < blocks.size(); ++b) {
        EXPECT_EQ(block_begin(saved_map, p, t, static_cast<int>(b)), static_cast<int64_t>(file.size()));
        file.insert(file.end(), blocks[b].begin(), blocks[b].end());
      }
      EXPECT_EQ(file_numel(saved_map, p, t), static_cast<int64_t>(file.size()));
    }
    const auto expected = oracle::memories(tensors, to, 8);
    for (int rank = 0; rank < 8; ++rank) {
      Blocks memory = unread(expected[rank]);
      fill(
          reads_of_shards(saved_map, map, rank),
          [&](const ShardRead& read, int64_t at) { return files.at(read.file).at(at); }, memory);
      expect_filled(memory, expected[rank]);
    }
  }
}

TEST(ShardReads, RowsOfAColumnSplitAreReadInPieces) {
  const std::vector<TensorSpec> tensors{{"o", {3, 8}, 0}};
  const Layout layout{"actor", {.tp = 2, .ranks = {0, 1}}, {{1, 4}}};
  const auto reads = reads_of_tensors(ShardMap(tensors, layout), 1);
  ASSERT_EQ(reads.size(), 1u);
  EXPECT_EQ(reads[0].from.offset, 4);
  EXPECT_EQ(reads[0].from.num_dims, 2);
  EXPECT_EQ(reads[0].from.shape[0], 3);
  EXPECT_EQ(reads[0].from.strides[0], 8);
  EXPECT_TRUE(reads[0].to.contiguous());
}

}  // namespace
}  // namespace trireme::tensors
