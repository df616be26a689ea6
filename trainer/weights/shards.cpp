#include "trainer/weights/shards.h"

#include <filesystem>
#include <map>

#include <nlohmann/json.hpp>

#include "runtime/base/error.h"
#include "runtime/base/files.h"
#include "trainer/weights/tensors.h"
#include "trainer/weights/weight_files.h"

namespace trireme::weights {

Shards::Shards(const models::DecoderShape& shape, at::ScalarType dtype, int64_t max_bytes)
    : dtype_(dtype), num_parameters_(shape.num_parameters()), files_(1) {
  const auto element_bytes = static_cast<int64_t>(c10::elementSize(dtype));
  int64_t used = 0;
  for (auto& spec : models::parameter_specs(shape)) {
    const int64_t bytes = spec.numel() * element_bytes;
    if (used > 0 && used + bytes > max_bytes) {
      files_.emplace_back();
      used = 0;
    }
    used += bytes;
    files_.back().push_back(std::move(spec));
  }
}

void make_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail(ErrorCode::io, "cannot make the folder {}: {}", folder, error.message());
}

std::string Shards::name(size_t file) const {
  return size() == 1 ? kSingleFile : fmt::format("model-{:05}-of-{:05}.safetensors", file + 1, size());
}

std::vector<TensorInfo> Shards::infos(size_t file) const {
  std::vector<TensorInfo> infos;
  for (const auto& spec : files_[file]) infos.push_back({spec.name, dtype_name(dtype_), spec.shape});
  return infos;
}

void Shards::write_index(const std::string& folder) const {
  if (size() == 1) return;
  std::map<std::string, std::string> file_of;
  for (size_t file = 0; file < size(); ++file)
    for (const auto& spec : files_[file]) file_of[spec.name] = name(file);
  const auto total_size = num_parameters_ * static_cast<int64_t>(c10::elementSize(dtype_));
  const nlohmann::ordered_json index{
      {"metadata", {{"total_parameters", num_parameters_}, {"total_size", total_size}}},
      {"weight_map", file_of}};
  files::write_atomically((std::filesystem::path(folder) / kIndexFile).string(), index.dump(2) + "\n");
}

}  // namespace trireme::weights
