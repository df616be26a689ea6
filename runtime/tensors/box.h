// A box: one range of indices per dim, the shape of everything that a rank can hold of a tensor. Row-major
// throughout; counts and offsets in elements. Torch-free arithmetic, no memory is touched.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace trireme::tensors {

/// Of a tensor that is moved or saved; layouts with more are refused.
inline constexpr int kMaxDims = 4;

/// Indices [begin[d], end[d]) of each dim. A scalar is a box of one dim with one index.
struct Box {
  int num_dims = 1;
  std::array<int64_t, kMaxDims> begin{}, end{};

  int64_t extent(int dim) const { return end[dim] - begin[dim]; }
  /// 0 if any range is empty.
  int64_t numel() const;
  bool operator==(const Box&) const = default;
};

/// All of a tensor. At most kMaxDims dims.
Box whole(std::span<const int64_t> dims);
Box intersection(const Box& a, const Box& b);
/// Appends elements [begin, end) of `box`, counted row-major, as boxes in that order: at most 2 num_dims - 1.
void append_interval(const Box& box, int64_t begin, int64_t end, std::vector<Box>& boxes);

/// Where the elements of a box lie in something that stores a larger box densely: nested loops, the outermost
/// first. Dims that lie end to end are merged, so a box without gaps is one loop of stride 1.
struct Strided {
  int64_t offset = 0;
  int num_dims = 1;
  std::array<int64_t, kMaxDims> shape{}, strides{};

  int64_t numel() const;
  bool contiguous() const { return num_dims == 1 && strides[0] == 1; }
};

/// Walks a Strided in the box's order, one stretch without gaps at a time.
class Runs {
 public:
  explicit Runs(const Strided& where);
  bool done() const { return done_; }
  int64_t offset() const { return offset_; }
  int64_t length() const { return length_; }
  void next();

 private:
  Strided where_;
  int loops_ = 0;  // the dims that are stepped through; the last one is a run where its stride is 1
  int64_t offset_ = 0, length_ = 1;
  std::array<int64_t, kMaxDims> at_{};
  bool done_ = false;
};

/// Walks two with equally many elements side by side: visit(offset in a, offset in b, how many follow each
/// other in both).
template <typename Visit>
void for_each_common_run(const Strided& a, const Strided& b, const Visit& visit) {
  Runs in_a(a), in_b(b);
  int64_t done_a = 0, done_b = 0;  // of the run that each is at
  while (!in_a.done()) {
    const int64_t count = std::min(in_a.length() - done_a, in_b.length() - done_b);
    visit(in_a.offset() + done_a, in_b.offset() + done_b, count);
    if ((done_a += count) == in_a.length()) in_a.next(), done_a = 0;
    if ((done_b += count) == in_b.length()) in_b.next(), done_b = 0;
  }
}

/// `box` must lie within `outer`, whose first element has offset 0.
Strided strided(const Box& box, const Box& outer);

}  // namespace trireme::tensors
