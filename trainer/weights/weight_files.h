// The safetensors files of a Hugging Face checkpoint, checked against the model that they shall fill. Nothing
// is read but their headers until a tensor is asked for.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/error.h"
#include "trainer/models/decoder_shape.h"
#include "trainer/weights/safetensors.h"

namespace trireme::weights {

inline constexpr const char* kSingleFile = "model.safetensors";
inline constexpr const char* kIndexFile = "model.safetensors.index.json";

/// Reading is thread-safe.
class WeightFiles {
 public:
  struct Place {
    const SafetensorsReader* file = nullptr;
    const TensorInfo* tensor = nullptr;
    std::string where() const;
  };

  /// `path` is one .safetensors file, or a folder: its model.safetensors, else the shards that
  /// model.safetensors.index.json names. Names may lack "model." (a checkpoint of the bare decoder).
  /// Ignored: rotary_emb.inv_freq buffers, and an lm_head.weight that only repeats tied embeddings or stands
  /// where a value head shall be. A value head may be missing, or be called v_head.summary (TRL).
  /// Throws: io if the folder or a file is not there, corrupt_data naming file and tensor if a file makes no
  /// sense, invalid_config listing every tensor that is missing, left over, misshapen or not of bf16, fp16 or
  /// fp32.
  WeightFiles(const std::string& path, const models::DecoderShape& shape);

  /// False for a value head that the files lack.
  bool has(const std::string& name) const { return places_.contains(name); }
  /// By the decoder's own name, which must exist.
  const Place& place(const std::string& name) const;
  /// BF16, F16 or F32: the one that most bytes have.
  std::string dtype() const;

 private:
  void open(const std::string& path, Mistakes& mistakes);
  void add(const std::string& path);
  void index_tensors(Mistakes& mistakes);
  void check(const std::string& path, const models::DecoderShape& shape, Mistakes& mistakes) const;

  std::map<std::string, std::vector<int64_t>> expected_;  // name -> shape
  std::vector<std::unique_ptr<SafetensorsReader>> files_;
  std::map<std::string, Place> places_;
};

}  // namespace trireme::weights
