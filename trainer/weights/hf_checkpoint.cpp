#include "trainer/weights/hf_checkpoint.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include <nlohmann/json.hpp>

#include "runtime/base/error.h"
#include "runtime/base/files.h"
#include "trainer/weights/safetensors.h"
#include "trainer/weights/tensors.h"

namespace trireme::weights {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";
constexpr const char* kHead = "lm_head.weight";
constexpr const char* kEmbedding = "model.embed_tokens.weight";

struct Source {
  const SafetensorsReader* file = nullptr;
  const TensorInfo* tensor = nullptr;
  std::string where() const { return fmt::format("{}: tensor {}", file->path(), tensor->name); }
};

/// The folder's files, and each tensor's place under the decoder's name for it.
struct Checkpoint {
  std::vector<std::unique_ptr<SafetensorsReader>> files;
  std::map<std::string, Source> tensors;
};

std::string list_shape(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

/// tensor -> shard, as the index says.
std::map<std::string, std::string> read_index(const std::string& path) {
  nlohmann::json index;
  try {
    index = nlohmann::json::parse(files::read(path));
  } catch (const nlohmann::json::parse_error& error) {  // its text quotes bytes that may be no text
    fail(ErrorCode::corrupt_data, "{} is not valid JSON: see byte {}", path, error.byte);
  } catch (const nlohmann::json::exception&) {
    fail(ErrorCode::corrupt_data, "{} is not valid JSON: a number is too large", path);
  }
  const auto is_string = [](const nlohmann::json& value) { return value.is_string(); };
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object() ||
      !std::ranges::all_of(index["weight_map"], is_string))
    fail(ErrorCode::corrupt_data, "{}: weight_map must be an object that gives a file for each tensor", path);
  auto shards = index["weight_map"].get<std::map<std::string, std::string>>();
  for (const auto& [name, shard] : shards)
    if (shard.empty() || shard != fs::path(shard).filename().string() || shard == "." || shard == "..")
      fail(ErrorCode::corrupt_data, "{}: tensor {}: '{}' is not the name of a file in this folder", path,
           name, shard);
  return shards;
}

[[noreturn]] void fail_without_weights(const std::string& folder) {
  if (!fs::is_directory(folder)) fail(ErrorCode::io, "cannot read {}: there is no such folder", folder);
  const bool pickled = fs::exists(fs::path(folder) / "pytorch_model.bin") ||
                       fs::exists(fs::path(folder) / "pytorch_model.bin.index.json");
  fail(ErrorCode::io, "{} holds neither {} nor {}{}", folder, kSingleFile, kIndexFile,
       pickled ? ". It has weights in PyTorch's pickle format: load and save it once with transformers to "
                 "convert it"
               : "");
}

/// Opens the files; `expected` has the decoder's own names.
Checkpoint open(const std::string& folder, const models::ParameterSet& expected, Mistakes& mistakes) {
  Checkpoint checkpoint;
  const std::string single = (fs::path(folder) / kSingleFile).string();
  const std::string index = (fs::path(folder) / kIndexFile).string();
  if (fs::exists(single)) {
    checkpoint.files.push_back(std::make_unique<SafetensorsReader>(single));
  } else if (fs::exists(index)) {
    const auto shards = read_index(index);
    std::map<std::string, const SafetensorsReader*> opened;
    for (const auto& [name, shard] : shards) {
      auto& reader = opened[shard];
      if (reader == nullptr) {
        checkpoint.files.push_back(std::make_unique<SafetensorsReader>((fs::path(folder) / shard).string()));
        reader = checkpoint.files.back().get();
      }
      if (reader->find(name) == nullptr)
        mistakes.add(index, fmt::format("tensor {} is not in {}", name, shard));
    }
  } else {
    fail_without_weights(folder);
  }
  for (const auto& file : checkpoint.files)
    for (const TensorInfo& tensor : file->tensors()) {
      if (tensor.name.ends_with("rotary_emb.inv_freq")) continue;
      const std::string prefixed = "model." + tensor.name;
      const std::string& name = expected.contains(prefixed) ? prefixed : tensor.name;
      const auto [place, is_new] = checkpoint.tensors.emplace(name, Source{file.get(), &tensor});
      if (!is_new)
        mistakes.add(file->path(), fmt::format("tensor {} is also in {} as {}", tensor.name,
                                               place->second.file->path(), place->second.tensor->name));
    }
  return checkpoint;
}

bool same_bytes(const Source& a, const Source& b) {
  const auto left = a.file->bytes(*a.tensor), right = b.file->bytes(*b.tensor);
  return a.tensor->dtype == b.tensor->dtype && left.size() == right.size() &&
         std::memcmp(left.data(), right.data(), left.size()) == 0;
}

void check_tensors(const Checkpoint& checkpoint, const std::string& folder, const models::DecoderShape& shape,
                   const models::ParameterSet& parameters, Mistakes& mistakes) {
  static const std::set<std::string> readable = {"BF16", "F16", "F32"};
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto& spec = parameters.spec(i);
    const auto found = checkpoint.tensors.find(spec.name);
    if (found == checkpoint.tensors.end()) {
      const bool untied_head = spec.name == kHead;
      mistakes.add(
          folder,
          fmt::format("tensor {} is missing{}", spec.name,
                      untied_head ? "; config.json says that the head is not tied to the embeddings" : ""));
      continue;
    }
    const Source& source = found->second;
    if (source.tensor->shape != spec.shape)
      mistakes.add(source.file->path(),
                   fmt::format("tensor {} has shape {}, config.json asks for {}", source.tensor->name,
                               list_shape(source.tensor->shape), list_shape(spec.shape)));
    if (!readable.contains(source.tensor->dtype))
      mistakes.add(source.file->path(), fmt::format("tensor {} is {}; weights must be BF16, F16 or F32",
                                                    source.tensor->name, source.tensor->dtype));
  }
  for (const auto& [name, source] : checkpoint.tensors) {
    if (parameters.contains(name)) continue;
    if (name == kHead && shape.tie_word_embeddings) {
      const auto embedding = checkpoint.tensors.find(kEmbedding);
      if (embedding == checkpoint.tensors.end() || same_bytes(source, embedding->second)) continue;
      mistakes.add(source.file->path(), fmt::format("tensor {} differs from {}, but config.json ties them",
                                                    source.tensor->name, embedding->second.tensor->name));
      continue;
    }
    mistakes.add(source.file->path(),
                 fmt::format("tensor {} is left over: the model has none of that name", source.tensor->name));
  }
}

}  // namespace

void load(const std::string& folder, const models::DecoderShape& shape, models::ParameterSet& parameters) {
  Mistakes mistakes;
  const Checkpoint checkpoint = open(folder, parameters, mistakes);
  check_tensors(checkpoint, folder, shape, parameters, mistakes);
  mistakes.throw_if_any(folder + ": these weights do not fit the model");
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Source& source = checkpoint.tensors.at(parameters.spec(i).name);
    parameters.parameter(i).copy_(read_tensor(*source.file, *source.tensor));
  }
}

void save(const std::string& folder, const models::DecoderShape& shape,
          const models::ParameterSet& parameters, at::ScalarType dtype, const SpecialTokens& special) {
  TRIREME_CHECK(dtype == at::kBFloat16 || dtype == at::kFloat, "weights are saved as bf16 or fp32, not {}",
                c10::toString(dtype));
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail(ErrorCode::io, "cannot make the folder {}: {}", folder, error.message());
  const auto path = [&](const char* name) { return (fs::path(folder) / name).string(); };

  std::vector<TensorInfo> infos;
  for (size_t i = 0; i < parameters.size(); ++i)
    infos.push_back({parameters.spec(i).name, dtype_name(dtype), parameters.spec(i).shape});
  SafetensorsWriter file(path(kSingleFile), std::move(infos));
  for (size_t i = 0; i < parameters.size(); ++i)
    write_tensor(file, parameters.spec(i).name, parameters.parameter(i).to(dtype));
  file.finish();

  auto config = shape.to_json(dtype == at::kFloat ? "float32" : "bfloat16");
  nlohmann::ordered_json generation = {{"_from_model_config", true}};
  for (auto* json : {&config, &generation}) {
    if (special.bos) (*json)["bos_token_id"] = *special.bos;
    // One id stands alone: older readers of config.json expect no list.
    if (special.eos.size() == 1) (*json)["eos_token_id"] = special.eos[0];
    if (special.eos.size() > 1) (*json)["eos_token_id"] = special.eos;
    if (special.pad) (*json)["pad_token_id"] = *special.pad;
  }
  files::write_atomically(path("config.json"), config.dump(2) + "\n");
  if (!special.eos.empty() || !fs::exists(path("generation_config.json")))
    files::write_atomically(path("generation_config.json"), generation.dump(2) + "\n");
}

}  // namespace trireme::weights
