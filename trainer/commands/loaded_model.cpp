#include "trainer/commands/loaded_model.h"

#include <chrono>

#include "runtime/base/error.h"
#include "trainer/weights/hf_checkpoint.h"
#include "trainer/weights/weight_files.h"

namespace trireme::commands {
namespace {

at::ScalarType compute_dtype(const std::string& word, const std::string& folder,
                             const models::DecoderShape& shape) {
  if (word == "auto")
    return weights::WeightFiles(folder, shape).dtype() == "BF16" ? at::kBFloat16 : at::kFloat;
  if (word != "float32" && word != "bfloat16")
    fail(ErrorCode::invalid_config, "--dtype '{}' is none of auto, float32, bfloat16", word);
  return weights::dtype_of_word(word);
}

}  // namespace

std::string LoadedModel::summary() const {
  return fmt::format("{} parameters in {}, read in {:.2f} s", shape.num_parameters(),
                     weights::dtype_word(parameters->dtype()), seconds);
}

LoadedModel load_model(const std::string& folder, const std::string& dtype, at::Device device, bool packed) {
  const auto begin = std::chrono::steady_clock::now();
  LoadedModel model;
  model.shape = models::DecoderShape::from_folder(folder);
  const at::ScalarType type = compute_dtype(dtype, folder, model.shape);
  model.parameters =
      std::make_unique<models::ParameterSet>(models::parameter_specs(model.shape), device, type);
  weights::load(folder, model.shape, *model.parameters);
  model.decoder = std::make_unique<models::Decoder>(model.shape, *model.parameters, type, packed);
  model.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return model;
}

}  // namespace trireme::commands
