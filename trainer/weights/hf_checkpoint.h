// A model's weights as a Hugging Face folder: read from one, written as one that `transformers` loads.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include "trainer/models/decoder_shape.h"
#include "trainer/models/parameter_set.h"

namespace trireme::weights {

/// Elements of one parameter, or of the slice of it that a rank holds, row-major from `begin` on.
struct Piece {
  size_t parameter = 0;  // its place among the specs
  int64_t begin = 0;
  at::Tensor values;  // [n], contiguous: where they lie
};

/// Fills `pieces` of the parameters (or slices) that `specs` name, from a folder or one .safetensors file
/// (weight_files.h), straight to where they belong: nothing else is read, and where the types agree nothing
/// else is allocated, else a few MB. A value head that the files lack stays as it is. Exact into fp32; into
/// bf16 rounded to nearest even. Local; ranks may read one folder at once. Throws what WeightFiles throws;
/// the pieces are then unchanged.
void load(const std::string& path, const models::DecoderShape& shape,
          const std::vector<models::ParameterSpec>& specs, std::span<const Piece> pieces);
/// All of a set, flat or in blocks that are allocated, whole or slices.
void load(const std::string& path, const models::DecoderShape& shape, models::ParameterSet& parameters);

/// What generation_config.json says about the tokenizer.
struct SpecialTokens {
  std::vector<int32_t> eos;  // any of them ends a response
  std::optional<int32_t> bos, pad;
};

struct SaveOptions {
  int64_t max_shard_bytes = 5'000'000'000;  // more than that: several files and an index
  // Of many ranks (sharded_save.h): what each may use beside its own, and the node of each; empty: all on
  // one.
  int64_t staging_bytes = int64_t{256} << 20;
  std::vector<int> node_of = {};
  std::string generation_config;  // the text to keep; empty: made from `special`
  SpecialTokens special;          // for a model that has no config.json of its own
};

/// Gives one tensor's values, of any type and device, when its turn to be written comes.
using TensorSource = std::function<at::Tensor(const models::ParameterSpec&)>;

/// Writes safetensors, config.json and generation_config.json into `folder` (made if absent). `dtype` is
/// bf16, fp16 (both rounded to nearest even) or fp32. One tensor is in memory at a time. Each file appears
/// whole or not at all; the folder as a whole is made atomic by runtime/checkpoint. Without anything to say
/// a generation_config.json that is there already stays. Local. Throws io.
void save(const std::string& folder, const models::DecoderShape& shape, const TensorSource& source,
          at::ScalarType dtype, const SaveOptions& options = {});
void save(const std::string& folder, const models::DecoderShape& shape,
          const models::ParameterSet& parameters, at::ScalarType dtype, const SaveOptions& options = {});

/// The two .json files alone.
void save_configurations(const std::string& folder, const models::DecoderShape& shape, at::ScalarType dtype,
                         const SaveOptions& options);

/// The weights alone, as one .safetensors file.
void save_file(const std::string& path, const models::DecoderShape& shape,
               const models::ParameterSet& parameters, at::ScalarType dtype);

/// "float32", "bfloat16", "float16": the word of config.json and of the command line, and back. Throws
/// internal for other types, invalid_config for other words.
std::string dtype_word(at::ScalarType dtype);
at::ScalarType dtype_of_word(const std::string& word);

}  // namespace trireme::weights
