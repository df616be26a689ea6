#include "trainer/models/packed_gemm.h"

#include <cstdlib>
#include <cstring>
#include <new>

#include "runtime/base/error.h"
#include "trainer/models/instruction_set.h"
#include "trainer/models/large_pages.h"
#include "trainer/models/packed_gemm_kernels.h"

namespace trireme::models {
namespace {

constexpr int64_t kColumns = PackedMatrix::kColumns;
constexpr int64_t kLargeBytes = 4 << 20;
constexpr int64_t kDepth = 32;  // K is padded to multiples of this

struct Scratch {
  void* memory = nullptr;
  int64_t size = 0;
  ~Scratch() { std::free(memory); }
};

const GemmKernels& kernels() {
#if defined(__x86_64__)
  switch (instruction_set()) {
    case InstructionSet::amx:
      return amx::kGemmKernels;
    case InstructionSet::avx512_bf16:
      return avx512_bf16::kGemmKernels;
    case InstructionSet::avx512:
      return avx512::kGemmKernels;
    case InstructionSet::avx2:
      return avx2::kGemmKernels;
    case InstructionSet::portable:
      break;
  }
#endif
  return portable::kGemmKernels;
}

// Words [rows][words] -> panel [word][kColumns]; what lies beyond rows is zero. In blocks that stay in the
// first cache.
void transpose(const std::byte* from, int64_t row_bytes, int64_t rows, int64_t words, uint32_t* to) {
  constexpr int64_t kBlock = 16;
  for (int64_t begin = 0; begin < words; begin += kBlock) {
    const int64_t count = words - begin < kBlock ? words - begin : kBlock;
    uint32_t block[kColumns][kBlock] = {};
    for (int64_t r = 0; r < rows; ++r)
      std::memcpy(block[r], from + r * row_bytes + begin * 4, static_cast<size_t>(count) * 4);
    for (int64_t w = 0; w < count; ++w)
      for (int64_t r = 0; r < kColumns; ++r) to[(begin + w) * kColumns + r] = block[r][w];
  }
}

// Two rows of bf16 -> one of pairs. A whole panel's width is known to the compiler.
inline void pair_rows(const uint16_t* even, const uint16_t* odd, int64_t columns, uint32_t* to) {
  if (columns == kColumns)
    for (int64_t c = 0; c < kColumns; ++c) to[c] = even[c] | static_cast<uint32_t>(odd[c]) << 16;
  else
    for (int64_t c = 0; c < columns; ++c) to[c] = even[c] | static_cast<uint32_t>(odd[c]) << 16;
}

}  // namespace

PackedMatrix::PackedMatrix(Element element, int64_t n, int64_t k) {
  reshape(element, n, k);
}

void PackedMatrix::reshape(Element element, int64_t n, int64_t k) {
  TRIREME_CHECK(n > 0 && k > 0, "a packed matrix of {} x {}", n, k);
  element_ = element;
  n_ = n;
  k_ = k;
  const int64_t words = element == Element::f32 ? k : (k + kDepth - 1) / kDepth * kDepth / 2;
  panel_bytes_ = words * kColumns * 4;
  if (bytes() <= capacity_) return;
  release();
  memory_ = on_large_pages(bytes());
  capacity_ = bytes();
}

void PackedMatrix::release() {
  memory_.reset();
  capacity_ = 0;
}

void PackedMatrix::pack(const void* weight, int64_t row_stride, int64_t panel_begin, int64_t panel_end) {
  TRIREME_CHECK(0 <= panel_begin && panel_end <= num_panels(), "panels {} to {} of {}", panel_begin,
                panel_end, num_panels());
  const int64_t element_bytes = element_ == Element::f32 ? 4 : 2;
  const int64_t row_bytes = row_stride * element_bytes, words = k_ * element_bytes / 4;
  for (int64_t p = panel_begin; p < panel_end; ++p) {
    const int64_t first = p * kColumns, rows = n_ - first < kColumns ? n_ - first : kColumns;
    const std::byte* from = static_cast<const std::byte*>(weight) + first * row_bytes;
    std::byte* to = memory_.get() + p * panel_bytes_;
    transpose(from, row_bytes, rows, words, reinterpret_cast<uint32_t*>(to));
    const int64_t done = words * kColumns * 4;
    std::memset(to + done, 0, static_cast<size_t>(panel_bytes_ - done));
    if (k_ * element_bytes % 4)  // the last, unpaired k
      for (int64_t r = 0; r < rows; ++r) std::memcpy(to + done + r * 4, from + r * row_bytes + words * 4, 2);
  }
}

void PackedMatrix::pack_transposed(const void* matrix, int64_t row_stride, int64_t panel_begin,
                                   int64_t panel_end) {
  TRIREME_CHECK(0 <= panel_begin && panel_end <= num_panels(), "panels {} to {} of {}", panel_begin,
                panel_end, num_panels());
  for (int64_t p = panel_begin; p < panel_end; ++p) {
    const int64_t first = p * kColumns, columns = n_ - first < kColumns ? n_ - first : kColumns;
    std::byte* panel = memory_.get() + p * panel_bytes_;
    if (columns < kColumns || panel_bytes_ > k_ * kColumns * 2)
      std::memset(panel, 0, static_cast<size_t>(panel_bytes_));
    if (element_ == Element::f32) {
      for (int64_t k = 0; k < k_; ++k)
        std::memcpy(panel + k * kColumns * 4, static_cast<const float*>(matrix) + k * row_stride + first,
                    static_cast<size_t>(columns) * 4);
    } else {
      auto* to = reinterpret_cast<uint32_t*>(panel);
      const auto* from = static_cast<const uint16_t*>(matrix) + first;
      for (int64_t k = 0; k + 1 < k_; k += 2, to += kColumns, from += 2 * row_stride)
        pair_rows(from, from + row_stride, columns, to);
      if (k_ % 2)
        for (int64_t c = 0; c < columns; ++c) to[c] = from[c];
    }
  }
}

void gemm(const PackedMatrix& weight, const GemmRows& rows, int64_t panel_begin, int64_t panel_end) {
  TRIREME_CHECK(0 <= panel_begin && panel_end <= weight.num_panels(), "panels {} to {} of {}", panel_begin,
                panel_end, weight.num_panels());
  if (panel_begin >= panel_end || rows.rows <= 0) return;
  const int64_t column = panel_begin * kColumns;
  const auto at = [column](auto* base, Element element) {
    return base ? base + column * (element == Element::f32 ? 4 : 2) : nullptr;
  };
  GemmTask task;
  task.panels = weight.panel(panel_begin);
  task.panel_bytes = weight.panel_bytes();
  task.num_panels = panel_end - panel_begin;
  task.k = weight.k();
  task.columns = weight.n() - column;
  task.x = rows.x;
  task.x_stride = rows.x_stride;
  task.rows = rows.rows;
  task.bias = at(static_cast<const std::byte*>(rows.bias), weight.element());
  task.out = at(static_cast<std::byte*>(rows.out), rows.out_element);
  task.out_stride = rows.out_stride;
  task.element = weight.element();
  task.out_element = rows.out_element;
  task.large = weight.bytes() > kLargeBytes;
  (task.element == Element::f32 ? kernels().f32 : kernels().bf16)(task);
}

void* gemm_scratch(int64_t bytes) {
  static thread_local Scratch scratch;
  if (bytes > scratch.size) {
    std::free(scratch.memory);
    scratch.size = (bytes + 4095) / 4096 * 4096;
    scratch.memory = std::aligned_alloc(4096, static_cast<size_t>(scratch.size));
    if (!scratch.memory) {
      scratch.size = 0;
      throw std::bad_alloc();
    }
  }
  return scratch.memory;
}

}  // namespace trireme::models
