// A tensor's memory as a communicator takes it.
#pragma once

#include <ATen/core/Tensor.h>

#include "runtime/comm/buffer_view.h"

namespace trireme::models {

/// Of a contiguous tensor. Throws internal for others, and for types that no communicator moves.
comm::BufferView view_of(const at::Tensor& tensor);

}  // namespace trireme::models
