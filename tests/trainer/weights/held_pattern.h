// What the ranks of any layout hold of a model whose every element can be told by its name and place, laid
// out the slow way.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include <ATen/ops/full.h>

#include "tests/trainer/weights/raw_file.h"
#include "trainer/models/pipeline_stage.h"
#include "trainer/weights/sharded_save.h"

namespace trireme::weights {

using models::DecoderShape;
using models::ParameterSpec;

// Where element k of a slice stands in the whole parameter, index by index.
inline int64_t in_whole(const ParameterSpec& spec, int64_t k) {
  const std::vector<int64_t> whole = spec.whole_shape();
  int64_t result = 0, inner = 1;
  for (int dim = static_cast<int>(spec.shape.size()) - 1; dim >= 0; --dim) {
    const int64_t index = k % spec.shape[dim] + (dim == spec.split_dim ? spec.first : 0);
    k /= spec.shape[dim];
    result += index * inner;
    inner *= whole[dim];
  }
  return result;
}

// Of a slice. Not a number that bf16 has.
inline float odd_pattern(const ParameterSpec& spec, int64_t k) {
  const int64_t whole = in_whole(spec, k);
  return static_cast<float>(pattern(spec.name, whole)) * 1.003f + static_cast<float>(whole) * 1e-4f;
}

struct Parallel {
  int tp = 1, dp = 1;
  bool zero = false;
  int pp = 1;
  std::string text() const { return fmt::format("dp {} pp {} tp {} zero {}", dp, pp, tp, zero); }
};

/// All that fit a model of 4 heads and 2 layers on `num_ranks` ranks.
inline std::vector<Parallel> layouts_of(int num_ranks) {
  std::vector<Parallel> all;
  for (const int pp : {1, 2})
    for (const int tp : {1, 2, 4})
      if (num_ranks % (pp * tp) == 0)
        for (const bool zero : {false, true}) all.push_back({tp, num_ranks / (pp * tp), zero, pp});
  return all;
}

/// What the rank at a place has of each block, fp32 or bf16 that was cut off from it.
class HeldPattern {
 public:
  HeldPattern(const DecoderShape& shape, const Parallel& parallel, const placement::Mesh::Coordinates& at,
              comm::DType dtype)
      : specs_(models::parameter_specs(shape, parallel.tp, at.t, {at.p, parallel.pp})),
        held_blocks_(models::blocks_of_stages(shape, parallel.pp)[at.p]),
        num_blocks_(static_cast<size_t>(shape.num_hidden_layers) + 2),
        dtype_(dtype) {
    const int d = at.d;
    std::vector<std::vector<float>> lines(specs_.back().block + 1);
    for (const ParameterSpec& spec : specs_)
      for (int64_t k = 0; k < spec.numel(); ++k) lines[spec.block].push_back(odd_pattern(spec, k));
    cuts_.resize(lines.size());
    for (size_t b = 0; b < lines.size(); ++b) {
      auto& line = lines[b];
      cuts_[b] = {0, static_cast<int64_t>(line.size())};
      if (parallel.zero) {
        const size_t cut = (line.size() + parallel.dp - 1) / parallel.dp;
        line.resize(cut * parallel.dp, 77.0f);
        line = std::vector<float>(line.begin() + d * cut, line.begin() + (d + 1) * cut);
        cuts_[b] = {static_cast<int64_t>(d * cut), static_cast<int64_t>((d + 1) * cut)};
      }
      std::vector<std::byte>& bytes = storage_.emplace_back(line.size() * comm::size_of(dtype));
      for (size_t i = 0; i < line.size(); ++i)  // little-endian: bf16 is the upper half
        std::memcpy(&bytes[i * comm::size_of(dtype)],
                    reinterpret_cast<const char*>(&line[i]) + 4 - comm::size_of(dtype), comm::size_of(dtype));
    }
  }
  HeldValues values(const placement::Mesh& mesh, bool zero) {
    HeldValues values{mesh, zero, dtype_, {}};
    values.blocks.resize(num_blocks_);
    for (size_t b = 0; b < storage_.size(); ++b) values.blocks[held_blocks_[b]] = storage_[b].data();
    return values;
  }
  const std::vector<ParameterSpec>& specs() const { return specs_; }

  /// What this rank has of each parameter: where it is read to, and what must then be there.
  std::vector<Piece> pieces() const {
    std::vector<Piece> pieces;
    for (size_t i = 0; i < specs_.size(); ++i) {
      int64_t offset = 0;
      for (size_t j = 0; j < i; ++j)
        if (specs_[j].block == specs_[i].block) offset += specs_[j].numel();
      const auto [from, to] = cuts_[specs_[i].block];
      const int64_t begin = std::clamp<int64_t>(from - offset, 0, specs_[i].numel()),
                    end = std::clamp<int64_t>(to - offset, 0, specs_[i].numel());
      pieces.push_back({i, begin, at::full({end - begin}, -1.0f)});
    }
    return pieces;
  }
  void expect_read(const std::vector<Piece>& pieces) const {
    for (const Piece& piece : pieces)
      for (int64_t k = 0; k < piece.values.numel(); ++k)
        ASSERT_EQ(std::bit_cast<uint32_t>(piece.values.const_data_ptr<float>()[k]),
                  std::bit_cast<uint32_t>(odd_pattern(specs_[piece.parameter], piece.begin + k)))
            << specs_[piece.parameter].name << " element " << piece.begin + k;
  }

 private:
  std::vector<ParameterSpec> specs_;
  std::vector<int> held_blocks_;
  size_t num_blocks_;
  comm::DType dtype_;
  std::vector<std::vector<std::byte>> storage_;
  std::vector<std::pair<int64_t, int64_t>> cuts_;
};

/// The same on one rank, for save() of hf_checkpoint.h.
inline models::ParameterSet whole_pattern(const DecoderShape& shape, comm::DType dtype) {
  const bool bf16 = dtype == comm::DType::bf16;
  models::ParameterSet set(models::parameter_specs(shape), at::kCPU, bf16 ? at::kBFloat16 : at::kFloat);
  HeldPattern held(shape, {}, {}, dtype);
  const HeldValues values = held.values({}, false);
  for (int b = 0; b < set.num_blocks(); ++b)
    std::memcpy(set.block(b).mutable_data_ptr(), values.blocks[b],
                static_cast<size_t>(set.block_numel(b)) * comm::size_of(dtype));
  return set;
}

}  // namespace trireme::weights
