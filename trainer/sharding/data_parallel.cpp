#include "trainer/sharding/data_parallel.h"

#include "runtime/base/error.h"

namespace trireme::sharding {
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

void sum_gradients(models::ParameterSet& parameters, comm::Communicator& group) {
  if (group.size() > 1) group.all_reduce(view_of(parameters.flat_gradient()));
}

void broadcast_parameters(models::ParameterSet& parameters, comm::Communicator& group, int root) {
  if (group.size() > 1) group.broadcast(view_of(parameters.flat()), root);
}

void check_replicas(const models::ParameterSet& parameters, comm::Communicator& group) {
  const auto sums = group.all_gather_strings(fmt::format("{:016x}", parameters.checksum()));
  for (size_t rank = 1; rank < sums.size(); ++rank)
    TRIREME_CHECK(sums[rank] == sums[0], "the weights of '{}' differ between its ranks 0 ({}) and {} ({})",
                  group.name(), sums[0], rank, sums[rank]);
}

}  // namespace trireme::sharding
