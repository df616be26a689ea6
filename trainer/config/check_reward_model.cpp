// What can be seen of a reward model's folder without reading its weights.
#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "trainer/config/checks.h"

namespace trireme::config {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// Null where there is no such file, or no JSON in it.
Json read_json(const fs::path& path) {
  std::ifstream file(path);
  return file ? Json::parse(file, nullptr, /*allow_exceptions=*/false) : Json();
}

// A safetensors file begins with the length of its table of contents.
Json contents_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  uint64_t length = 0;
  if (!file.read(reinterpret_cast<char*>(&length), sizeof length) || length > (uint64_t{1} << 27)) return {};
  std::string text(length, '\0');
  if (!file.read(text.data(), static_cast<std::streamsize>(length))) return {};
  return Json::parse(text, nullptr, false);
}

// The shape of a tensor in one of the folder's files.
std::optional<std::vector<int64_t>> shape_of(const std::string& folder, const char* tensor) {
  std::error_code ignored;
  for (fs::directory_iterator entry(folder, ignored), end; entry != end && !ignored; entry.increment(ignored)) {
    if (entry->path().extension() != ".safetensors") continue;
    const Json contents = contents_of(entry->path());
    if (!contents.is_object() || !contents.contains(tensor)) continue;
    const Json shape = contents[tensor].value("shape", Json());
    if (shape.is_array()) return shape.get<std::vector<int64_t>>();
  }
  return std::nullopt;
}

}  // namespace

std::string reward_model_mistake(const std::string& folder, bool needs_tokenizer) {
  const Json config = read_json(fs::path(folder) / "config.json");
  if (!config.is_object())
    return fmt::format("{} holds no config.json: it must be the folder of a Hugging Face checkpoint", folder);
  const std::string supported =
      "Qwen2, Qwen3 or LlamaForSequenceClassification, or the same ForTokenClassification";
  const Json names = config.value("architectures", Json());
  const std::string name =
      names.is_array() && names.size() == 1 && names[0].is_string() ? names[0].get<std::string>() : "";
  const size_t task = name.rfind("For");
  const std::string family = name.substr(0, task), of = task == std::string::npos ? "" : name.substr(task);
  if (of == "ForCausalLM")
    return fmt::format(
        "{} is a language model ({}), without a head that scores; a reward model is one of {}, with one label",
        folder, name, supported);
  if ((family != "Qwen2" && family != "Qwen3" && family != "Llama") ||
      (of != "ForSequenceClassification" && of != "ForTokenClassification"))
    return fmt::format("{} has the architecture {}, which is not supported; a reward model is one of {}", folder,
                       names.is_null() ? "null" : names.dump(), supported);
  const Json labels = config.value("id2label", Json());
  if (labels.is_object() && labels.size() != 1)
    return fmt::format("{} has {} labels (id2label in config.json): a reward model has one", folder,
                       labels.size());
  bool has_weights = false;
  std::error_code ignored;
  for (fs::directory_iterator entry(folder, ignored), end; entry != end && !ignored; entry.increment(ignored))
    has_weights = has_weights || entry->path().extension() == ".safetensors";
  if (!has_weights) return fmt::format("{} holds no *.safetensors: download the weights too", folder);
  auto head = shape_of(folder, "score.weight");
  if (!head) head = shape_of(folder, "v_head.summary.weight");
  if (!head)
    return fmt::format("{} has no score.weight in its *.safetensors: it is no trained reward model", folder);
  if (head->empty() || head->front() != 1)
    return fmt::format("{} has {} labels (score.weight in its *.safetensors): a reward model has one", folder,
                       head->empty() ? 0 : head->front());
  if (needs_tokenizer && !fs::is_regular_file(fs::path(folder) / "tokenizer.json", ignored))
    return fmt::format(
        "{} holds no tokenizer.json: copy it there, or set reward_model.input = \"tokens\" if it reads the "
        "policy's tokens",
        folder);
  return "";
}

}  // namespace trireme::config
