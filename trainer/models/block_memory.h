// Memory that can be given back while views of it stay: they read and write it again once it is there again.
#pragma once

#include <ATen/core/Tensor.h>

namespace trireme::models {

class BlockMemory {
 public:
  /// `numel` elements; allocated at first.
  BlockMemory(int64_t numel, at::ScalarType dtype, at::Device device);

  /// [numel]. Views of it may be made at any time, and used while it is allocated.
  const at::Tensor& values() const { return values_; }
  bool allocated() const { return allocated_; }
  /// Its contents are then undefined.
  void allocate();
  void release();

 private:
  at::Tensor values_;
  bool allocated_ = true;
};

}  // namespace trireme::models
