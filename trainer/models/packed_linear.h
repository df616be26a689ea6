// Tensors and threads around packed_gemm.h: the forward products of a decoder on the CPU.
#pragma once

#include <memory>

#include <ATen/core/Tensor.h>

#include "trainer/models/packed_gemm.h"

namespace trireme::models {

/// fp32 -> f32, bf16 -> bf16; throws for others.
Element element_of(at::ScalarType dtype);

/// Room for a matrix [out, in] of `dtype`; to be filled by pack().
std::shared_ptr<PackedMatrix> make_packed(const at::Tensor& matrix);

/// Takes the matrix's present values, over all threads.
void pack(const at::Tensor& matrix, PackedMatrix& packed);

/// x [T, in] of the weight's dtype -> [T, out] in `out`; bias [out] of the weight's dtype, or undefined. A
/// row's bits depend on that row alone (packed_gemm.h).
at::Tensor packed_linear(const at::Tensor& x, const PackedMatrix& weight, const at::Tensor& bias,
                         at::ScalarType out);

/// The same, and the same bits, of a weight [out, in] that is packed for this call alone: for many rows.
at::Tensor linear_packed_for_call(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                                  at::ScalarType out);

/// Of the same product, without a bias, `columns` outputs from output `first`, a multiple of
/// PackedMatrix::kColumns: [T, columns] in fp32, with the same bits.
at::Tensor packed_columns(const at::Tensor& x, const PackedMatrix& weight, int64_t first, int64_t columns);

/// grad_y [T, out] weight [out, in] -> [T, in] in `out`, summed in fp32 over out in one order. Packs the
/// weight for the call.
at::Tensor packed_grad_x(const at::Tensor& grad_y, const at::Tensor& weight, at::ScalarType out);

}  // namespace trireme::models
