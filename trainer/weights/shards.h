// Which files of a folder hold which tensors: a function of the model, the type and the limit alone, whoever
// writes them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <c10/core/ScalarType.h>

#include "trainer/models/decoder_shape.h"
#include "trainer/models/parameter_spec.h"
#include "trainer/weights/safetensors.h"

namespace trireme::weights {

class Shards {
 public:
  /// All parameters in their order; a file has `max_bytes` of tensors at most, or one larger tensor alone.
  Shards(const models::DecoderShape& shape, at::ScalarType dtype, int64_t max_bytes);

  size_t size() const { return files_.size(); }
  const std::vector<models::ParameterSpec>& tensors(size_t file) const { return files_[file]; }
  /// "model.safetensors" where there is only one, else "model-00001-of-00003.safetensors" and so on.
  std::string name(size_t file) const;
  /// Of a file's tensors, for SafetensorsWriter.
  std::vector<TensorInfo> infos(size_t file) const;
  /// Of more than one file, which tensor is in which. Throws io.
  void write_index(const std::string& folder) const;

 private:
  at::ScalarType dtype_;
  int64_t num_parameters_ = 0;
  std::vector<std::vector<models::ParameterSpec>> files_;
};

/// With its parents, where absent. Throws io.
void make_folder(const std::string& folder);

}  // namespace trireme::weights
