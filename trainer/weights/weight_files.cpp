#include "trainer/weights/weight_files.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include <nlohmann/json.hpp>

#include "runtime/base/files.h"
#include "trainer/models/parameter_set.h"

namespace trireme::weights {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHead = "lm_head.weight";
constexpr const char* kEmbedding = "model.embed_tokens.weight";
constexpr const char* kValueHead = "score.";
constexpr const char* kTrlValueHead = "v_head.summary.";

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

bool same_bytes(const WeightFiles::Place& a, const WeightFiles::Place& b) {
  if (a.tensor->dtype != b.tensor->dtype || a.tensor->num_bytes() != b.tensor->num_bytes()) return false;
  std::vector<std::byte> left(1 << 20), right(left.size());
  for (uint64_t offset = 0; offset < a.tensor->num_bytes(); offset += left.size()) {
    const size_t part = std::min<uint64_t>(left.size(), a.tensor->num_bytes() - offset);
    a.file->read(*a.tensor, offset, std::span(left).first(part));
    b.file->read(*b.tensor, offset, std::span(right).first(part));
    if (std::memcmp(left.data(), right.data(), part) != 0) return false;
  }
  return true;
}

}  // namespace

std::string WeightFiles::Place::where() const {
  return fmt::format("{}: tensor {}", file->path(), tensor->name);
}

WeightFiles::WeightFiles(const std::string& path, const models::DecoderShape& shape) {
  for (auto& spec : models::parameter_specs(shape)) expected_.emplace(spec.name, spec.shape);
  Mistakes mistakes;
  open(path, mistakes);
  index_tensors(mistakes);
  check(path, shape, mistakes);
  mistakes.throw_if_any(path + ": these weights do not fit the model");
}

void WeightFiles::add(const std::string& path) {
  files_.push_back(std::make_unique<SafetensorsReader>(path));
}

void WeightFiles::open(const std::string& path, Mistakes& mistakes) {
  const fs::path folder(path);
  if (folder.extension() == ".safetensors") return add(path);
  if (fs::exists(folder / kSingleFile)) return add((folder / kSingleFile).string());
  const std::string index = (folder / kIndexFile).string();
  if (!fs::exists(index)) fail_without_weights(path);
  std::map<std::string, const SafetensorsReader*> opened;
  for (const auto& [name, shard] : read_index(index)) {
    auto& reader = opened[shard];
    if (reader == nullptr) {
      add((folder / shard).string());
      reader = files_.back().get();
    }
    if (reader->find(name) == nullptr)
      mistakes.add(index, fmt::format("tensor {} is not in {}", name, shard));
  }
}

void WeightFiles::index_tensors(Mistakes& mistakes) {
  for (const auto& file : files_)
    for (const TensorInfo& tensor : file->tensors()) {
      if (tensor.name.ends_with("rotary_emb.inv_freq")) continue;
      std::string name = tensor.name;
      if (expected_.contains("model." + name)) name = "model." + name;
      if (name.starts_with(kTrlValueHead)) name.replace(0, std::string(kTrlValueHead).size(), kValueHead);
      const auto [place, is_new] = places_.emplace(name, Place{file.get(), &tensor});
      if (!is_new)
        mistakes.add(file->path(), fmt::format("tensor {} is also in {} as {}", tensor.name,
                                               place->second.file->path(), place->second.tensor->name));
    }
}

void WeightFiles::check(const std::string& path, const models::DecoderShape& shape,
                        Mistakes& mistakes) const {
  static const std::set<std::string> readable = {"BF16", "F16", "F32"};
  for (const auto& [name, extents] : expected_) {
    const auto found = places_.find(name);
    if (found == places_.end()) {
      if (name.starts_with(kValueHead)) continue;
      mistakes.add(path, fmt::format("tensor {} is missing{}", name,
                                     name == kHead ? "; config.json says that the head is not tied to the "
                                                     "embeddings"
                                                   : ""));
      continue;
    }
    const auto& [file, tensor] = found->second;
    if (tensor->shape != extents)
      mistakes.add(file->path(), fmt::format("tensor {} has shape {}, config.json asks for {}", tensor->name,
                                             list_shape(tensor->shape), list_shape(extents)));
    if (!readable.contains(tensor->dtype))
      mistakes.add(file->path(), fmt::format("tensor {} is {}; weights must be BF16, F16 or F32",
                                             tensor->name, tensor->dtype));
  }
  for (const auto& [name, place] : places_) {
    if (expected_.contains(name) || (name == kHead && shape.head == models::Head::value)) continue;
    if (name == kHead && shape.tie_word_embeddings) {
      const auto embedding = places_.find(kEmbedding);
      if (embedding == places_.end() || same_bytes(place, embedding->second)) continue;
      mistakes.add(place.file->path(), fmt::format("tensor {} differs from {}, but config.json ties them",
                                                   place.tensor->name, embedding->second.tensor->name));
      continue;
    }
    mistakes.add(place.file->path(),
                 fmt::format("tensor {} is left over: the model has none of that name", place.tensor->name));
  }
}

const WeightFiles::Place& WeightFiles::place(const std::string& name) const {
  const auto found = places_.find(name);
  TRIREME_CHECK(found != places_.end(), "no tensor is named {}", name);
  return found->second;
}

std::string WeightFiles::dtype() const {
  std::map<std::string, uint64_t> bytes;
  for (const auto& [name, place] : places_) bytes[place.tensor->dtype] += place.tensor->num_bytes();
  return std::ranges::max_element(bytes, {}, [](const auto& entry) { return entry.second; })->first;
}

}  // namespace trireme::weights
