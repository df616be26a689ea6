// The gradient of a weight matrix on the CPU, added in fp32 where it lies: no weight-sized temporary exists,
// and nothing is rounded on the way.
//
// An output is a sum over rows in blocks of fixed size, each block's sum in one order (which the instruction
// set fixes, weight_gradient_kernels.h), blocks ascending: the same bits for any number of threads.
#pragma once

#include <ATen/core/Tensor.h>

namespace trireme::models {

/// gradient [out, in] (fp32) += grad_y [T, out]^T x [T, in]. grad_y and x are both fp32 or both bf16; columns
/// of all three are contiguous. Throws internal for operands that do not fit.
void add_weight_gradient(const at::Tensor& grad_y, const at::Tensor& x, const at::Tensor& gradient);

}  // namespace trireme::models
