// Memory that can be given back while views of it stay: they read and write it again once it is there again.
#pragma once

#include <ATen/core/Tensor.h>

namespace trireme::memory {

/// Of a tensor and of all views of its storage: the memory comes, with undefined contents, and goes.
void allocate_memory(const at::Tensor& tensor);
void release_memory(const at::Tensor& tensor);
bool has_memory(const at::Tensor& tensor);

class BlockMemory {
 public:
  /// `numel` elements; allocated at first.
  BlockMemory(int64_t numel, at::ScalarType dtype, at::Device device);

  /// [numel]. Views of it may be made at any time, and used while it is allocated.
  const at::Tensor& values() const { return values_; }
  bool allocated() const { return has_memory(values_); }
  /// Its contents are then undefined.
  void allocate() { allocate_memory(values_); }
  void release() { release_memory(values_); }

 private:
  at::Tensor values_;
};

}  // namespace trireme::memory
