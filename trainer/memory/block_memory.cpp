#include "trainer/memory/block_memory.h"

#include <utility>

#include <ATen/ops/empty.h>

namespace trireme::memory {

// The storage keeps its size in bytes and its views; only the pointer comes and goes.
void allocate_memory(const at::Tensor& tensor) {
  if (has_memory(tensor)) return;
  const at::Storage& storage = tensor.storage();
  storage.set_data_ptr_noswap(storage.allocator()->allocate(storage.nbytes()));
}

void release_memory(const at::Tensor& tensor) {
  tensor.storage().set_data_ptr_noswap(at::DataPtr(nullptr, tensor.device()));
}

bool has_memory(const at::Tensor& tensor) {
  return tensor.storage().nbytes() == 0 || tensor.storage().data() != nullptr;
}

BlockMemory::BlockMemory(int64_t numel, at::ScalarType dtype, at::Device device)
    : values_(at::empty({numel}, at::TensorOptions().dtype(dtype).device(device))) {}

}  // namespace trireme::memory
