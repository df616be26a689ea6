// `trireme export`: a checkpoint of a run as a Hugging Face folder to give away.
#include <algorithm>
#include <cmath>
#include <filesystem>

#include "runtime/base/error.h"
#include "runtime/base/files.h"
#include "runtime/checkpoint/checkpoint.h"
#include "trainer/commands/commands.h"
#include "trainer/models/decoder_shape.h"
#include "trainer/steps/run_state.h"
#include "trainer/weights/hf_checkpoint.h"
#include "trainer/weights/tensors.h"
#include "trainer/weights/weight_files.h"

namespace trireme::commands {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSummary =
    "Writes a checkpoint as a Hugging Face folder: weights in shards, configurations, the tokenizer's files, "
    "and\n"
    "nothing of the training. SOURCE is a run's folder (its newest complete checkpoint), a checkpoint of it, "
    "or\n"
    "any folder with safetensors; a critic lies in its checkpoint's critic/. Where the type differs from the "
    "weights', they are made from the fp32 "
    "masters.\n\n"
    "  trireme export runs/gsm8k-20260801 models/mine --dtype bfloat16\n";

// "5GB", "500MB", "2GiB", "1000000".
int64_t bytes_of(const std::string& text) {
  size_t end = 0;
  double number = -1;
  try {
    number = std::stod(text, &end);
  } catch (const std::exception&) {
  }
  const std::string unit = text.substr(std::min(end, text.size()));
  constexpr std::pair<const char*, double> kUnits[] = {{"", 1},          {"B", 1},        {"KB", 1e3},
                                                       {"MB", 1e6},      {"GB", 1e9},     {"KiB", 1024.0},
                                                       {"MiB", 1 << 20}, {"GiB", 1 << 30}};
  for (const auto& [name, factor] : kUnits)
    if (unit == name && number * factor >= 1 && number * factor < 1e18)
      return static_cast<int64_t>(number * factor);
  fail(ErrorCode::invalid_config, "--max-shard-size '{}' is no size, such as 5GB or 500MB", text);
}

std::string checkpoint_of(const std::string& source) {
  if (!fs::is_directory(source)) fail(ErrorCode::invalid_config, "the folder '{}' does not exist", source);
  if (fs::exists(fs::path(source) / "config.json")) return source;
  const auto folder = fs::path(source) / "checkpoints";
  const auto newest = checkpoint::latest(fs::exists(folder) ? folder.string() : source);
  if (!newest)
    fail(ErrorCode::invalid_config,
         "'{}' holds no complete checkpoint: it is neither a model's folder (config.json) nor a run's "
         "(checkpoints/step_N)",
         source);
  return *newest;
}

bool is_carried(const fs::path& file) {
  static const std::vector<std::string> left = {".safetensors", ".bin", ".pt", ".pth", ".gguf", ".part"};
  static const std::vector<std::string> made = {"config.json", "generation_config.json", "manifest.json"};
  const std::string name = file.filename().string();
  return std::ranges::find(left, file.extension().string()) == left.end() &&
         std::ranges::find(made, name) == made.end() && !name.ends_with(".index.json");
}

void export_to(const std::string& source, const std::string& destination, const std::string& word,
               int64_t max_shard_bytes) {
  if (fs::exists(fs::path(source) / "manifest.json")) checkpoint::verify_folder(source);
  const auto shape = models::DecoderShape::from_folder(source, models::head_of(source));
  const std::string held = weights::WeightFiles(source, shape).dtype();
  const at::ScalarType dtype =
      word == "auto" ? weights::scalar_type(held, source) : weights::dtype_of_word(word);
  const bool as_it_is = weights::dtype_name(dtype) == held;
  const weights::WeightFiles files(as_it_is ? source : steps::masters_of(source), shape);
  weights::SaveOptions options;
  options.max_shard_bytes = max_shard_bytes;
  const auto generation = fs::path(source) / "generation_config.json";
  if (fs::exists(generation)) options.generation_config = files::read(generation);

  checkpoint::write_folder(destination, [&](const std::string& folder) {
    const auto read = [&](const models::ParameterSpec& spec) {
      const auto& place = files.place(spec.name);
      return weights::read_tensor(*place.file, *place.tensor);
    };
    weights::save(folder, shape, read, dtype, options);
    for (const auto& entry : fs::directory_iterator(source))
      if (entry.is_regular_file() && is_carried(entry.path()))
        fs::copy_file(entry.path(), fs::path(folder) / entry.path().filename(),
                      fs::copy_options::overwrite_existing);
    if (!fs::exists(generation)) fs::remove(fs::path(folder) / "generation_config.json");
  });
  fmt::print("{}: {} parameters in {}, from {}\n", destination, shape.num_parameters(),
             weights::dtype_word(dtype), source);
}

}  // namespace

int export_model(const Arguments& arguments) {
  auto options = command_line::options_of("export", "SOURCE DESTINATION", kSummary);
  options.add_options()("dtype", "float32, bfloat16, float16, or auto: as the checkpoint has them",
                        cxxopts::value<std::string>()->default_value("auto"),
                        "TYPE")("max-shard-size", "a larger model is written as several files",
                                cxxopts::value<std::string>()->default_value("5GB"),
                                "SIZE")("overwrite", "replace a DESTINATION that exists");
  const auto parsed = command_line::parse(options, arguments);
  if (!parsed) return 0;
  const auto folders = command_line::positional(*parsed);
  if (folders.size() != 2)
    fail(ErrorCode::invalid_config, "two folders are needed: `trireme export SOURCE DESTINATION`");
  const auto& word = (*parsed)["dtype"].as<std::string>();
  if (word != "auto") (void)weights::dtype_of_word(word);
  const int64_t max_shard_bytes = bytes_of((*parsed)["max-shard-size"].as<std::string>());
  const std::string source = checkpoint_of(folders[0]);
  std::string destination = fs::absolute(folders[1]).lexically_normal().string();
  if (destination.ends_with('/')) destination.pop_back();
  if (fs::exists(destination)) {
    if (!fs::is_directory(destination) || fs::equivalent(destination, source))
      fail(ErrorCode::invalid_config, "'{}' is {}", folders[1],
           fs::is_directory(destination) ? "the source itself" : "a file");
    if (!fs::is_empty(destination) && !parsed->count("overwrite"))
      fail(ErrorCode::invalid_config, "'{}' exists and is not empty: name another folder, or add --overwrite",
           folders[1]);
  }
  export_to(source, destination, word, max_shard_bytes);
  return 0;
}

}  // namespace trireme::commands
