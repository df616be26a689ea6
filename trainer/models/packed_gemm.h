// Matrix products with weights that are packed once after each update and read many times:
//   out[rows, N] = x[rows, K] weight[N, K]^T (+ bias[N])
//
// For one row of x the result's bits depend on that row and the weights alone: not on the number of rows, on
// the other rows, on how rows or columns are split over calls, nor on threads. Each output is one sum over k
// in one order, which the instruction set fixes (packed_gemm_kernels.h). So a row has the same bits in
// decode, in any batch, and in the training forward. Torch-free.
#pragma once

#include <cstdint>
#include <memory>

#include "trainer/models/cpu_kernels.h"
#include "trainer/models/large_pages.h"

namespace trireme::models {

/// A weight matrix [N, K] in panels of kColumns outputs, as the instruction set chosen for this process reads
/// it. Not copyable.
class PackedMatrix {
 public:
  /// Outputs in a panel. N is padded to whole panels, K to whole tiles, both with zeros.
  static constexpr int64_t kColumns = 32;

  PackedMatrix() = default;
  PackedMatrix(Element element, int64_t n, int64_t k);

  /// Another matrix in the same memory where that suffices; its values are to be packed anew.
  void reshape(Element element, int64_t n, int64_t k);

  /// Gives the memory back, values and all; reshape() takes it again.
  void release();

  bool defined() const { return memory_ != nullptr; }
  Element element() const { return element_; }
  int64_t n() const { return n_; }
  int64_t k() const { return k_; }
  int64_t num_panels() const { return (n_ + kColumns - 1) / kColumns; }
  int64_t bytes() const { return num_panels() * panel_bytes_; }

  /// Takes the present values of weight [N, K] (rows row_stride elements apart) into panels [begin, end).
  /// Different panels may be packed by different threads.
  void pack(const void* weight, int64_t row_stride, int64_t panel_begin, int64_t panel_end);

  /// The same from the weight's transpose [K, N]: what the backward products multiply by.
  void pack_transposed(const void* matrix, int64_t row_stride, int64_t panel_begin, int64_t panel_end);

  const std::byte* panel(int64_t index) const { return memory_.get() + index * panel_bytes_; }
  int64_t panel_bytes() const { return panel_bytes_; }

 private:
  Element element_ = Element::f32;
  int64_t n_ = 0, k_ = 0, panel_bytes_ = 0, capacity_ = 0;
  LargePageMemory memory_;
};

/// The other operands; strides in elements.
struct GemmRows {
  const void* x;  // [rows, K] of the weight's element
  int64_t x_stride;
  int64_t rows;
  const void* bias;  // [N] of the weight's element, or null
  void* out;         // [rows, N]
  int64_t out_stride;
  Element out_element;
};

/// Writes the columns of panels [begin, end) of out, on this thread.
void gemm(const PackedMatrix& weight, const GemmRows& rows, int64_t panel_begin, int64_t panel_end);

}  // namespace trireme::models
