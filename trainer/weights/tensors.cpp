#include "trainer/weights/tensors.h"

#include <ATen/ops/empty.h>

#include "runtime/base/error.h"

namespace trireme::weights {
namespace {

const std::map<std::string, at::ScalarType>& types() {
  static const std::map<std::string, at::ScalarType> table = {
      {"F32", at::kFloat}, {"BF16", at::kBFloat16}, {"F16", at::kHalf},  {"F64", at::kDouble},
      {"I64", at::kLong},  {"I32", at::kInt},       {"I16", at::kShort}, {"I8", at::kChar},
      {"U8", at::kByte},   {"BOOL", at::kBool}};
  return table;
}

}  // namespace

std::string dtype_name(at::ScalarType type) {
  for (const auto& [name, candidate] : types())
    if (candidate == type) return name;
  fail(ErrorCode::internal, "tensors of type {} cannot be written", c10::toString(type));
}

at::ScalarType scalar_type(const std::string& dtype, const std::string& where) {
  const auto found = types().find(dtype);
  if (found == types().end()) fail(ErrorCode::corrupt_data, "{}: dtype {} is not supported", where, dtype);
  return found->second;
}

at::Tensor read_tensor(const SafetensorsReader& file, const TensorInfo& tensor) {
  const auto type = scalar_type(tensor.dtype, fmt::format("{}: tensor {}", file.path(), tensor.name));
  at::Tensor result = at::empty(tensor.shape, at::TensorOptions().dtype(type));
  file.read(tensor, 0, {static_cast<std::byte*>(result.mutable_data_ptr()), result.nbytes()});
  return result;
}

void write_tensor(SafetensorsWriter& file, const std::string& name, const at::Tensor& tensor) {
  const at::Tensor host = tensor.detach().cpu().contiguous();
  file.write(name, {static_cast<const std::byte*>(host.const_data_ptr()), host.nbytes()});
}

void write_tensors(const std::string& path, const std::vector<std::pair<std::string, at::Tensor>>& tensors) {
  std::vector<TensorInfo> infos;
  for (const auto& [name, tensor] : tensors)
    infos.push_back({name, dtype_name(tensor.scalar_type()), tensor.sizes().vec()});
  SafetensorsWriter file(path, std::move(infos));
  for (const auto& [name, tensor] : tensors) write_tensor(file, name, tensor);
  file.finish();
}

std::map<std::string, at::Tensor> read_tensors(const std::string& path) {
  const SafetensorsReader file(path);
  std::map<std::string, at::Tensor> tensors;
  for (const TensorInfo& tensor : file.tensors()) tensors.emplace(tensor.name, read_tensor(file, tensor));
  return tensors;
}

}  // namespace trireme::weights
