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
  at::parallel_for(0, packed.num_panels(), std::max<int64_t>(1, kLeastBytes / packed.panel_bytes()),
                   [&](int64_t begin, int64_t end) {
                     packed.pack(matrix.const_data_ptr(), matrix.stride(0), begin, end);
                   });
}

at::Tensor packed_linear(const at::Tensor& input, const PackedMatrix& weight, const at::Tensor& bias,
                         at::ScalarType out_type) {
  const at::Tensor x = input.stride(1) == 1 ? input : input.contiguous();
  TRIREME_CHECK(x.dim() == 2 && x.size(1) == weight.k() && element_of(x.scalar_type()) == weight.element(),
                "rows of {} do not fit a matrix of {} x {}", x.size(1), weight.n(), weight.k());
  TRIREME_CHECK(!bias.defined() || (bias.numel() == weight.n() && bias.scalar_type() == x.scalar_type()),
                "a bias does not fit {} outputs", weight.n());
  const int64_t rows = x.size(0), panels = weight.num_panels();
  const at::Tensor out = at::empty({rows, weight.n()}, x.options().dtype(out_type));
  const auto* x_data = static_cast<const char*>(x.const_data_ptr());
  auto* out_data = static_cast<char*>(out.mutable_data_ptr());
  const int64_t blocks = at::get_num_threads() > 1 ? (rows + kRowsAtOnce - 1) / kRowsAtOnce : 1;
  const int64_t rows_at_once = blocks > 1 ? kRowsAtOnce : rows;
  const int64_t work = weight.panel_bytes() * std::max<int64_t>(1, rows_at_once / 32);
  // Panels of one block of rows, then of the next: a thread has a run of them.
  at::parallel_for(
      0, blocks * panels, std::max<int64_t>(1, kLeastBytes / work), [&](int64_t begin, int64_t end) {
        while (begin < end) {
          const int64_t block = begin / panels, panel = begin % panels, row = block * rows_at_once;
          const int64_t stop = std::min(panels, panel + end - begin);
          GemmRows task;
          task.x = x_data + row * x.stride(0) * x.element_size();
          task.x_stride = x.stride(0);
          task.rows = std::min(rows_at_once, rows - row);
          task.bias = bias.defined() ? bias.const_data_ptr() : nullptr;
          task.out = out_data + row * weight.n() * out.element_size();
          task.out_stride = weight.n();
          task.out_element = element_of(out_type);
          gemm(weight, task, panel, stop);
          begin += stop - panel;
        }
      });
  return out;
}

}  // namespace trireme::models
