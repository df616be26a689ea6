#include "trainer/models/packed_linear.h"

#include <algorithm>

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include "runtime/base/error.h"

namespace trireme::models {
namespace {

constexpr int64_t kRowsAtOnce = 256;        // where threads share out rows as well as columns
constexpr int64_t kLeastBytes = 128 << 10;  // of weights read by a thread that is worth waking

}  // namespace

Element element_of(at::ScalarType dtype) {
  if (dtype == at::kFloat) return Element::f32;
  TRIREME_CHECK(dtype == at::kBFloat16, "the kernels take fp32 and bf16, not {}", toString(dtype));
  return Element::bf16;
}

std::shared_ptr<PackedMatrix> make_packed(const at::Tensor& matrix) {
  return std::make_shared<PackedMatrix>(element_of(matrix.scalar_type()), matrix.size(0), matrix.size(1));
}

void pack(const at::Tensor& matrix, PackedMatrix& packed) {
  TRIREME_CHECK(matrix.size(0) == packed.n() && matrix.size(1) == packed.k() && matrix.stride(1) == 1 &&
                    element_of(matrix.scalar_type()) == packed.element(),
                "packing a matrix of another shape");
  packed.reshape(packed.element(), packed.n(), packed.k());  // it may have been released
  at::parallel_for(0, packed.num_panels(), std::max<int64_t>(1, kLeastBytes / packed.panel_bytes()),
                   [&](int64_t begin, int64_t end) {
                     packed.pack(matrix.const_data_ptr(), matrix.stride(0), begin, end);
                   });
}

namespace {

// The columns of panels [first, first + panels) of all.out.
void run(const PackedMatrix& weight, const GemmRows& all, int64_t first, int64_t panels) {
  const int64_t x_bytes = weight.element() == Element::f32 ? 4 : 2,
                out_bytes = all.out_element == Element::f32 ? 4 : 2;
  const int64_t blocks = at::get_num_threads() > 1 ? (all.rows + kRowsAtOnce - 1) / kRowsAtOnce : 1;
  const int64_t rows_at_once = blocks > 1 ? kRowsAtOnce : all.rows;
  const int64_t work = weight.panel_bytes() * std::max<int64_t>(1, rows_at_once / 32);
  // Panels of one block of rows, then of the next: a thread has a run of them.
  at::parallel_for(
      0, blocks * panels, std::max<int64_t>(1, kLeastBytes / work), [&](int64_t begin, int64_t end) {
        while (begin < end) {
          const int64_t block = begin / panels, panel = begin % panels, row = block * rows_at_once;
          const int64_t stop = std::min(panels, panel + end - begin);
          GemmRows task = all;
          task.x = static_cast<const char*>(all.x) + row * all.x_stride * x_bytes;
          task.rows = std::min(rows_at_once, all.rows - row);
          task.out = static_cast<char*>(all.out) + row * all.out_stride * out_bytes;
          gemm(weight, task, first + panel, first + stop);
          begin += stop - panel;
        }
      });
}

// Room for the panels of one backward product at a time; it grows and stays.
PackedMatrix& pack_for_backward(const at::Tensor& matrix) {
  static thread_local PackedMatrix packed;
  packed.reshape(element_of(matrix.scalar_type()), matrix.size(1), matrix.size(0));
  at::parallel_for(0, packed.num_panels(), std::max<int64_t>(1, kLeastBytes / packed.panel_bytes()),
                   [data = matrix.const_data_ptr(), stride = matrix.stride(0), target = &packed](
                       int64_t begin, int64_t end) { target->pack_transposed(data, stride, begin, end); });
  return packed;
}

}  // namespace

at::Tensor packed_linear(const at::Tensor& input, const PackedMatrix& weight, const at::Tensor& bias,
                         at::ScalarType out_type) {
  const at::Tensor x = input.stride(1) == 1 ? input : input.contiguous();
  TRIREME_CHECK(x.dim() == 2 && x.size(1) == weight.k() && element_of(x.scalar_type()) == weight.element(),
                "rows of {} do not fit a matrix of {} x {}", x.size(1), weight.n(), weight.k());
  TRIREME_CHECK(!bias.defined() || (bias.numel() == weight.n() && bias.scalar_type() == x.scalar_type()),
                "a bias does not fit {} outputs", weight.n());
  const at::Tensor out = at::empty({x.size(0), weight.n()}, x.options().dtype(out_type));
  run(weight,
      {x.const_data_ptr(), x.stride(0), x.size(0), bias.defined() ? bias.const_data_ptr() : nullptr,
       out.mutable_data_ptr(), weight.n(), element_of(out_type)},
      0, weight.num_panels());
  return out;
}

at::Tensor linear_packed_for_call(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                                  at::ScalarType out) {
  static thread_local PackedMatrix packed;  // grows and stays
  packed.reshape(element_of(weight.scalar_type()), weight.size(0), weight.size(1));
  pack(weight, packed);
  return packed_linear(x, packed, bias, out);
}

at::Tensor packed_columns(const at::Tensor& x, const PackedMatrix& weight, int64_t first, int64_t columns) {
  TRIREME_CHECK(
      x.stride(1) == 1 && x.size(1) == weight.k() && element_of(x.scalar_type()) == weight.element(),
      "rows of {} do not fit a matrix of {} x {}", x.size(1), weight.n(), weight.k());
  constexpr int64_t kColumns = PackedMatrix::kColumns;
  TRIREME_CHECK(first % kColumns == 0 && columns > 0 && first + columns <= weight.n() &&
                    (columns % kColumns == 0 || first + columns == weight.n()),
                "columns {} to {} of {} are not whole panels", first, first + columns, weight.n());
  const at::Tensor out = at::empty({x.size(0), columns}, x.options().dtype(at::kFloat));
  // gemm() counts columns from the matrix's first, which lies that far before what there is of them.
  const uintptr_t origin =
      reinterpret_cast<uintptr_t>(out.mutable_data_ptr()) - static_cast<uintptr_t>(first) * sizeof(float);
  run(weight,
      {x.const_data_ptr(), x.stride(0), x.size(0), nullptr, reinterpret_cast<void*>(origin), columns,
       Element::f32},
      first / kColumns, (columns + kColumns - 1) / kColumns);
  return out;
}

at::Tensor packed_grad_x(const at::Tensor& grad_y, const at::Tensor& weight, at::ScalarType out_type) {
  TRIREME_CHECK(grad_y.size(1) == weight.size(0) && grad_y.stride(1) == 1 && weight.stride(1) == 1,
                "gradients of {} outputs do not fit a matrix of {} x {}", grad_y.size(1), weight.size(0),
                weight.size(1));
  const at::Tensor out = at::empty({grad_y.size(0), weight.size(1)}, grad_y.options().dtype(out_type));
  const PackedMatrix& packed = pack_for_backward(weight);
  run(packed,
      {grad_y.const_data_ptr(), grad_y.stride(0), grad_y.size(0), nullptr, out.mutable_data_ptr(),
       weight.size(1), element_of(out_type)},
      0, packed.num_panels());
  return out;
}

}  // namespace trireme::models
