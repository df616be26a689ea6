#include "trainer/models/tensor_view.h"

#include "runtime/base/error.h"

namespace trireme::models {
namespace {

comm::DType dtype_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return comm::DType::f32;
    case at::kBFloat16:
      return comm::DType::bf16;
    case at::kLong:
      return comm::DType::i64;
    case at::kInt:
      return comm::DType::i32;
    case at::kByte:
      return comm::DType::u8;
    case at::kDouble:
      return comm::DType::f64;
    default:
      fail(ErrorCode::internal, "no communicator moves {}", toString(tensor.scalar_type()));
  }
}

}  // namespace

comm::BufferView view_of(const at::Tensor& tensor) {
  TRIREME_CHECK(tensor.is_contiguous(), "only contiguous tensors can be moved");
  return {tensor.data_ptr(), tensor.numel(), dtype_of(tensor),
          tensor.is_cpu() ? comm::Device::cpu : comm::Device::gpu};
}

}  // namespace trireme::models
