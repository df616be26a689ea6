#include "trainer/weights/hf_checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <limits>

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <nlohmann/json.hpp>

#include "runtime/base/error.h"
#include "runtime/base/files.h"
#include "trainer/weights/safetensors.h"
#include "trainer/weights/shards.h"
#include "trainer/weights/tensors.h"
#include "trainer/weights/weight_files.h"

namespace trireme::weights {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kPartElements = 1 << 20;  // read at a time, by one thread

/// A piece's elements from `begin` on, as many as one thread reads at a time.
struct Part {
  const WeightFiles::Place* place;
  const models::ParameterSpec* spec;
  int64_t begin;
  at::Tensor target;
};

std::vector<Part> parts_of(const WeightFiles& files, const std::vector<models::ParameterSpec>& specs,
                           std::span<const Piece> pieces) {
  std::vector<Part> parts;
  for (const Piece& piece : pieces) {
    const models::ParameterSpec& spec = specs.at(piece.parameter);
    if (!files.has(spec.name)) continue;
    const WeightFiles::Place& place = files.place(spec.name);
    const int64_t count = piece.values.numel();
    TRIREME_CHECK(piece.values.is_contiguous() && piece.begin >= 0 && piece.begin + count <= spec.numel() &&
                      place.tensor->shape == spec.whole_shape(),
                  "elements {} to {} of {} do not exist", piece.begin, piece.begin + count, spec.name);
    TRIREME_CHECK(count == 0 || piece.values.const_data_ptr() != nullptr, "{} has no memory", spec.name);
    for (int64_t first = 0; first < count; first += kPartElements)
      parts.push_back({&place, &spec, piece.begin + first,
                       piece.values.narrow(0, first, std::min(kPartElements, count - first))});
  }
  return parts;
}

/// Fills `host`, of the file's type.
void read_into(const Part& part, const at::Tensor& host) {
  auto* to = static_cast<std::byte*>(host.mutable_data_ptr());
  const auto width = static_cast<int64_t>(host.element_size());
  models::for_each_stretch(*part.spec, part.begin, part.begin + host.numel(),
                           [&](int64_t in_whole, int64_t in_slice, int64_t count) {
                             part.place->file->read(
                                 *part.place->tensor, static_cast<uint64_t>(in_whole * width),
                                 {to + (in_slice - part.begin) * width, static_cast<size_t>(count * width)});
                           });
}

/// One after the other; `buffer` is kept between parts of one type.
void read_part(const Part& part, at::Tensor& buffer) {
  const at::ScalarType type = scalar_type(part.place->tensor->dtype, part.place->where());
  if (part.target.is_cpu() && part.target.scalar_type() == type) return read_into(part, part.target);
  if (!buffer.defined() || buffer.scalar_type() != type)
    buffer = at::empty({kPartElements}, at::TensorOptions().dtype(type));
  const at::Tensor read = buffer.narrow(0, 0, part.target.numel());
  read_into(part, read);
  part.target.copy_(read);
}

}  // namespace

void load(const std::string& path, const models::DecoderShape& shape,
          const std::vector<models::ParameterSpec>& specs, std::span<const Piece> pieces) {
  const WeightFiles files(path, shape);
  const auto parts = parts_of(files, specs, pieces);
  const auto read = [&](int64_t begin, int64_t end) {
    at::Tensor buffer;
    for (int64_t i = begin; i < end; ++i) read_part(parts[static_cast<size_t>(i)], buffer);
  };
  const auto count = static_cast<int64_t>(parts.size());
  if (std::ranges::all_of(pieces, [](const Piece& piece) { return piece.values.is_cpu(); }))
    at::parallel_for(0, count, 1, read);
  else
    read(0, count);
}

void load(const std::string& path, const models::DecoderShape& shape, models::ParameterSet& parameters) {
  std::vector<Piece> pieces;
  for (size_t i = 0; i < parameters.size(); ++i)
    pieces.push_back({i, 0, parameters.parameter(i).view({parameters.spec(i).numel()})});
  load(path, shape, parameters.specs(), pieces);
}

namespace {

void save_shard(const std::string& path, const std::vector<TensorInfo>& infos,
                const std::vector<models::ParameterSpec>& specs, const TensorSource& source,
                at::ScalarType dtype) {
  SafetensorsWriter file(path, infos);
  for (const auto& spec : specs) write_tensor(file, spec.name, source(spec).to(dtype));
  file.finish();
}

}  // namespace

void save_configurations(const std::string& folder_path, const models::DecoderShape& shape,
                         at::ScalarType dtype, const SaveOptions& options) {
  const fs::path folder(folder_path);
  const SpecialTokens& special = options.special;
  auto config = shape.to_json(dtype_word(dtype));
  nlohmann::ordered_json generation = {{"_from_model_config", true}};
  std::vector<nlohmann::ordered_json*> written{&generation};
  if (shape.config_text.empty()) written.push_back(&config);
  for (auto* json : written) {
    if (special.bos) (*json)["bos_token_id"] = *special.bos;
    // One id stands alone: older readers of config.json expect no list.
    if (special.eos.size() == 1) (*json)["eos_token_id"] = special.eos[0];
    if (special.eos.size() > 1) (*json)["eos_token_id"] = special.eos;
    if (special.pad) (*json)["pad_token_id"] = *special.pad;
  }
  files::write_atomically(folder / "config.json", config.dump(2) + "\n");
  const auto path = folder / "generation_config.json";
  if (!options.generation_config.empty())
    files::write_atomically(path, options.generation_config);
  else if (!special.eos.empty() || !fs::exists(path))
    files::write_atomically(path, generation.dump(2) + "\n");
}

void save(const std::string& folder, const models::DecoderShape& shape, const TensorSource& source,
          at::ScalarType dtype, const SaveOptions& options) {
  make_folder(folder);
  const Shards shards(shape, dtype, options.max_shard_bytes);
  for (size_t i = 0; i < shards.size(); ++i)
    save_shard((fs::path(folder) / shards.name(i)).string(), shards.infos(i), shards.tensors(i), source,
               dtype);
  shards.write_index(folder);
  save_configurations(folder, shape, dtype, options);
}

namespace {

TensorSource source_of(const models::ParameterSet& parameters) {
  return [&](const models::ParameterSpec& spec) { return parameters.parameter(spec.name); };
}

}  // namespace

void save(const std::string& folder, const models::DecoderShape& shape,
          const models::ParameterSet& parameters, at::ScalarType dtype, const SaveOptions& options) {
  save(folder, shape, source_of(parameters), dtype, options);
}

void save_file(const std::string& path, const models::DecoderShape& shape,
               const models::ParameterSet& parameters, at::ScalarType dtype) {
  const Shards one(shape, dtype, std::numeric_limits<int64_t>::max());
  save_shard(path, one.infos(0), one.tensors(0), source_of(parameters), dtype);
}

std::string dtype_word(at::ScalarType dtype) {
  if (dtype == at::kFloat) return "float32";
  if (dtype == at::kBFloat16) return "bfloat16";
  TRIREME_CHECK(dtype == at::kHalf, "weights are saved as bf16, fp16 or fp32, not {}", c10::toString(dtype));
  return "float16";
}

at::ScalarType dtype_of_word(const std::string& word) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf})
    if (dtype_word(dtype) == word) return dtype;
  fail(ErrorCode::invalid_config, "dtype '{}' is none of float32, bfloat16, float16", word);
}

}  // namespace trireme::weights
