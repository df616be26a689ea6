// Plain named tensors in one safetensors file: the optimizer's state, and what a checkpoint keeps beside it.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include "trainer/weights/safetensors.h"

namespace trireme::weights {

/// The format's word for a type ("F32"). Throws internal for a type that the format lacks.
std::string dtype_name(at::ScalarType type);
/// The reverse; throws corrupt_data naming `where` for a type that tensors here cannot have.
at::ScalarType scalar_type(const std::string& dtype, const std::string& where);

/// A copy of one tensor of an open file, on the host.
at::Tensor read_tensor(const SafetensorsReader& file, const TensorInfo& tensor);
/// Writes a tensor (of any device, dense or strided) under its name.
void write_tensor(SafetensorsWriter& file, const std::string& name, const at::Tensor& tensor);

/// Written aside and renamed. Throws io.
void write_tensors(const std::string& path, const std::vector<std::pair<std::string, at::Tensor>>& tensors);
/// On the host, with the types and shapes that were written. Throws io, corrupt_data.
std::map<std::string, at::Tensor> read_tensors(const std::string& path);

}  // namespace trireme::weights
