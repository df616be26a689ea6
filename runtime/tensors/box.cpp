#include "runtime/tensors/box.h"

#include <algorithm>

#include "runtime/base/error.h"

namespace trireme::tensors {
namespace {

// Elements [begin, end) of the box that `box` is from `dim` on; its ranges before that are one index each.
void append_from(Box box, int dim, int64_t begin, int64_t end, std::vector<Box>& boxes) {
  if (begin >= end) return;
  int64_t inner = 1;
  for (int d = dim + 1; d < box.num_dims; ++d) inner *= box.extent(d);
  const int64_t base = box.begin[dim];
  const auto rows = [&](int64_t first, int64_t last) {
    Box part = box;
    part.begin[dim] = base + first;
    part.end[dim] = base + last;
    return part;
  };
  int64_t first = begin / inner;
  const int64_t last = end / inner;  // the row in which `end` lies
  if (begin % inner != 0) {
    append_from(rows(first, first + 1), dim + 1, begin % inner, std::min(inner, end - first * inner), boxes);
    ++first;
  }
  if (first < last) boxes.push_back(rows(first, last));
  if (last >= first && end % inner != 0) append_from(rows(last, last + 1), dim + 1, 0, end % inner, boxes);
}

}  // namespace

int64_t Box::numel() const {
  int64_t count = 1;
  for (int d = 0; d < num_dims; ++d) count *= std::max<int64_t>(0, extent(d));
  return count;
}

Box whole(std::span<const int64_t> dims) {
  TRIREME_CHECK(dims.size() <= kMaxDims, "{} dims, {} are the most", dims.size(), kMaxDims);
  Box box;
  box.num_dims = std::max<int>(1, static_cast<int>(dims.size()));
  box.end[0] = 1;
  std::copy(dims.begin(), dims.end(), box.end.begin());
  return box;
}

Box intersection(const Box& a, const Box& b) {
  Box both = a;
  for (int d = 0; d < a.num_dims; ++d) {
    both.begin[d] = std::max(a.begin[d], b.begin[d]);
    both.end[d] = std::max(both.begin[d], std::min(a.end[d], b.end[d]));
  }
  return both;
}

void append_interval(const Box& box, int64_t begin, int64_t end, std::vector<Box>& boxes) {
  append_from(box, 0, begin, end, boxes);
}

int64_t Strided::numel() const {
  int64_t count = 1;
  for (int d = 0; d < num_dims; ++d) count *= shape[d];
  return count;
}

Strided strided(const Box& box, const Box& outer) {
  Strided result;
  int64_t stride = 1;
  // From the innermost dim outwards; kept in reverse, then turned around.
  int count = 0;
  for (int d = box.num_dims - 1; d >= 0; --d) {
    result.offset += (box.begin[d] - outer.begin[d]) * stride;
    const int64_t extent = box.extent(d);
    if (count > 0 && result.strides[count - 1] * result.shape[count - 1] == stride) {
      result.shape[count - 1] *= extent;
    } else if (extent != 1 || (d == 0 && count == 0)) {
      result.shape[count] = extent;
      result.strides[count] = extent == 1 ? 1 : stride;
      ++count;
    }
    stride *= outer.extent(d);
  }
  result.num_dims = count;
  std::reverse(result.shape.begin(), result.shape.begin() + count);
  std::reverse(result.strides.begin(), result.strides.begin() + count);
  return result;
}

Runs::Runs(const Strided& where) : where_(where), offset_(where.offset) {
  const int last = where.num_dims - 1;
  const bool dense = where.strides[last] == 1;
  loops_ = dense ? last : where.num_dims;
  if (dense) length_ = where.shape[last];
}

void Runs::next() {
  for (int dim = loops_ - 1; dim >= 0; --dim) {
    offset_ += where_.strides[dim];
    if (++at_[dim] < where_.shape[dim]) return;
    offset_ -= where_.strides[dim] * where_.shape[dim];
    at_[dim] = 0;
  }
  done_ = true;
}

}  // namespace trireme::tensors
