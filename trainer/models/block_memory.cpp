#include "trainer/models/block_memory.h"

#include <utility>

#include <ATen/ops/empty.h>

namespace trireme::models {

BlockMemory::BlockMemory(int64_t numel, at::ScalarType dtype, at::Device device)
    : values_(at::empty({numel}, at::TensorOptions().dtype(dtype).device(device))) {}

// The storage keeps its size in bytes and its views; only the pointer comes and goes.
void BlockMemory::allocate() {
  if (allocated_) return;
  const at::Storage& storage = values_.storage();
  storage.set_data_ptr_noswap(storage.allocator()->allocate(storage.nbytes()));
  allocated_ = true;
}

void BlockMemory::release() {
  if (!allocated_) return;
  values_.storage().set_data_ptr_noswap(at::DataPtr(nullptr, values_.device()));
  allocated_ = false;
}

}  // namespace trireme::models
