// A model's weights as a Hugging Face folder: read from one, written as one that `transformers` loads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <c10/core/ScalarType.h>

#include "trainer/models/decoder_shape.h"
#include "trainer/models/parameter_set.h"

namespace trireme::weights {

/// Fills `parameters` from FOLDER/model.safetensors, else from the shards that
/// FOLDER/model.safetensors.index.json names; bf16, fp16 or fp32, rounded to nothing. Names may lack "model."
/// (a checkpoint of the bare decoder). Ignored: rotary_emb.inv_freq buffers, and an lm_head.weight that only
/// repeats tied embeddings. Local; ranks may read one folder at once. Throws: io if the folder or a file is
/// not there, corrupt_data naming file and tensor if a file makes no sense, invalid_config listing every
/// tensor that is missing, left over or misshapen. `parameters` is then unchanged.
void load(const std::string& folder, const models::DecoderShape& shape, models::ParameterSet& parameters);

/// What generation_config.json says about the tokenizer.
struct SpecialTokens {
  std::vector<int32_t> eos;  // any of them ends a response
  std::optional<int32_t> bos, pad;
};

/// Writes model.safetensors, config.json and generation_config.json into `folder` (made if absent). `dtype`
/// is at::kBFloat16 (rounded to nearest even) or at::kFloat. Each file appears whole or not at all; the
/// folder as a whole is made atomic by runtime/checkpoint. Without eos a generation_config.json that is there
/// already stays. Local. Throws io.
void save(const std::string& folder, const models::DecoderShape& shape,
          const models::ParameterSet& parameters, at::ScalarType dtype, const SpecialTokens& special = {});

}  // namespace trireme::weights
