// A model of a Hugging Face folder, to be read only.
#pragma once

#include <memory>
#include <string>

#include <c10/core/Device.h>

#include "trainer/models/decoder.h"

namespace trireme::commands {

struct LoadedModel {
  models::DecoderShape shape;
  std::unique_ptr<models::ParameterSet> parameters;
  std::unique_ptr<models::Decoder> decoder;
  double seconds = 0;  // that it took

  /// "494032768 parameters in bfloat16, read in 0.41 s"
  std::string summary() const;
};

/// `dtype`: float32, bfloat16, or auto: bfloat16 where the weights are, else float32. The weights are held
/// once, in that type. Throws what DecoderShape and weights::load throw, invalid_config for another dtype.
/// `packed`: as Decoder has it.
LoadedModel load_model(const std::string& folder, const std::string& dtype, at::Device device, bool packed);

}  // namespace trireme::commands
