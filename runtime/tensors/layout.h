// A layout says how the ranks of one role hold the tensors of a model: which slice of each tensor a rank has,
// and where in its memory that slice lies. Arithmetic only: no memory, no models, no communication.
//
// Three things happen to a tensor, in this order.
//   pp  gives its block to one stage of the pipeline, or to several (an embedding that is the head as well).
//   tp  splits it along one dim in whole units (the rows of a head, a block of the vocabulary, one column of
//       an MLP), or leaves it whole, on every tp rank or on one. The part of one tp rank is the tensor's
//       *slice*.
//   dp  either repeats the slices on every dp rank, or cuts them (`zero`): the slices of a block are laid end
//       to end and that line is cut evenly, so a rank holds one stretch of it, in general pieces of tensors.
//       The ranks along cp hold weights as those along dp do: "d" below counts both, dp outermost.
//
// One rank's memory for block b (tp = 2, dp = 2; q k v are fused, and so are gate and up):
//
//   tp rank 0 |q0|k0|v0|..|o0|norm|gate0|up0|..|down0|..|      .. : padding, so that each matrix begins at a
//             '---- dp rank 0 ----'--- dp rank 1 ---'          multiple of `alignment` and all cuts are equal
//
// Fusion is adjacency: q, k and v keep their names and their own splits, and lie side by side.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/comm/buffer_view.h"
#include "runtime/placement/mesh.h"
#include "runtime/tensors/box.h"

namespace trireme::tensors {

/// One tensor of a model. Lists of them are in the order of the forward pass, the tensors of a block
/// together.
struct TensorSpec {
  std::string name;           // Hugging Face's
  std::vector<int64_t> dims;  // row-major, whole
  int block = 0;              // what is gathered and freed at once; 0, 1, ... ascending along the list
  /// Lies directly behind the tensor before it, in one matrix with it: k and v behind q, up behind gate.
  bool joins_previous = false;
  /// Other names of this same tensor: a tied "lm_head.weight". It is stored and moved once.
  std::vector<std::string> tied_names;
};

/// What to do where units and tp ranks are not equally many.
enum class Fit : uint8_t {
  exact,   // tp divides the units, or the layout is refused
  uneven,  // the first ranks hold one unit more; the last may hold none (vocabulary)
  repeat,  // fewer units than ranks: each is held by tp / units neighbours (kv heads). Otherwise exact
};

/// How tp splits one tensor.
struct Split {
  static constexpr int kWhole = -1;
  int dim = kWhole;
  int64_t unit = 1;  // indices of `dim` that stay together; the last unit may be short if the fit is uneven
  Fit fit = Fit::exact;
  static constexpr int kEverybody = -1;
  int owner = kEverybody;  // of a tensor that is not split: the one tp rank that holds it, e.g. to save it
};

using placement::Mesh;

struct Layout {
  std::string role;  // for messages
  Mesh mesh;
  std::vector<Split> splits;  // of each tensor
  comm::DType dtype = comm::DType::bf16;
  bool zero = false;      // dp cuts the line of slices of each block; otherwise it repeats them
  int64_t alignment = 1;  // elements: where matrices begin, and of what a cut is a multiple
  /// The blocks of each stage of the pipeline, ascending. Where pp = 1 it may be left empty: all blocks.
  std::vector<std::vector<int>> blocks_of_stages = {};
};

/// Every mistake in `layout`, each with what would work instead (tp sizes, numbers of ranks). `num_ranks` is
/// the size of the world. A layout without mistakes makes nothing else here throw.
Mistakes check(const std::vector<TensorSpec>& tensors, const Layout& layout, int num_ranks);

/// The tp sizes that divide `num_ranks` and fit all tensors, ascending.
std::vector<int> tp_sizes_that_fit(const std::vector<TensorSpec>& tensors, const std::vector<Split>& splits,
                                   int num_ranks);

/// The index of a tensor by its name or a tied name; empty if there is none.
std::optional<int> find_tensor(const std::vector<TensorSpec>& tensors, const std::string& name);

/// What tp rank t of `tp` holds of a tensor before dp cuts it; an empty box if that is nothing.
Box slice_of(const TensorSpec& tensor, const Split& split, int tp, int t);

/// Elements [begin, end) of something, counted row-major.
struct Interval {
  int64_t begin = 0, end = 0;
  int64_t numel() const { return end - begin; }
};

/// A layout worked out: slices, and offsets in each rank's memory. Offsets are elements from the start of
/// what the rank holds of the block. Tensors and layout must outlive it and have no mistakes.
class ShardMap {
 public:
  ShardMap(const std::vector<TensorSpec>& tensors, const Layout& layout);

  const std::vector<TensorSpec>& tensors() const { return *tensors_; }
  const Layout& layout() const { return *layout_; }
  int num_blocks() const { return num_blocks_; }

  struct Coordinates {
    int d = 0, p = 0, t = 0;  // d of dp * cp
  };
  /// Empty for a rank that does not have this role.
  std::optional<Coordinates> find(int rank) const;
  int rank(const Coordinates& at) const;
  /// How many ranks hold the same weights, or share them out: dp * cp.
  int num_copies() const { return layout_->mesh.dp * layout_->mesh.cp; }
  /// The stages that hold a block, ascending.
  const std::vector<int>& stages_of(int block) const { return stages_of_[block]; }
  bool holds(int p, int block) const;

  // The same on all stages that hold the tensor's block:

  const Box& slice(int t, int tensor) const { return columns_[t].slices[tensor]; }
  /// Elements that a rank stores of a block, padding included; the same for all d.
  int64_t stored(int t, int block) const { return columns_[t].stored[block]; }
  /// The elements of slice(t, tensor) that rank (d, t) holds; empty (begin == end) if none.
  Interval held(int d, int t, int tensor) const;
  /// Where `box` lies in the memory of rank (d, t) for the tensor's block. The rank must hold all of it.
  Strided place(int d, int t, int tensor, const Box& box) const;

 private:
  struct Column {  // one tp rank's line of slices, block by block
    std::vector<Box> slices;
    std::vector<int64_t> offsets;  // of each slice in the line of its block
    std::vector<int64_t> stored;   // of each block: its line, or one cut of it
  };

  const std::vector<TensorSpec>* tensors_;
  const Layout* layout_;
  int num_blocks_ = 0;
  std::vector<std::vector<int>> stages_of_;  // of each block
  std::vector<Column> columns_;
  std::vector<std::pair<int, Coordinates>> by_rank_;  // ascending
};

}  // namespace trireme::tensors
