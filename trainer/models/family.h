// A family of decoders: what a model_type says beyond the shape that all share. Layers are the same for all;
// a family sets which biases and norms they have, and knows the fields of its own config.json. A new family
// is one small file and a line in family.cpp. Torch-free.
#pragma once

#include <span>
#include <string>

#include "trainer/models/config_fields.h"
#include "trainer/models/decoder_shape.h"

namespace trireme::models {

struct Family {
  const char* model_type;
  const char* architecture;  // as config.json's `architectures` names it
  /// Reads the family's own fields; what all families share is in `shape` by now.
  void (*read)(ConfigFields& fields, DecoderShape& shape);
  /// Writes them, for a model that was made here.
  void (*write)(const DecoderShape& shape, nlohmann::ordered_json& config);
};

std::span<const Family* const> families();
/// Null if there is none.
const Family* find_family(const std::string& model_type);

}  // namespace trireme::models
