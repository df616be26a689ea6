#include "trainer/sharding/state_bytes.h"

#include <vector>

#include "trainer/models/parameter_spec.h"

namespace trireme::sharding {

StateBytes state_bytes(const models::DecoderShape& shape, int element, int dp, int tp, int zero_stage,
                       bool packed, const models::PipelineStage& stage) {
  if (dp == 1) zero_stage = 0;
  std::vector<int64_t> blocks;
  int64_t matrices = 0, head = 0, ends = 0;  // ends: what is no layer
  for (const models::ParameterSpec& spec : models::parameter_specs(shape, tp, 0, stage)) {
    if (static_cast<size_t>(spec.block) == blocks.size()) blocks.push_back(0);
    blocks[static_cast<size_t>(spec.block)] += spec.numel();
    const bool is_head = spec.name == "lm_head.weight" || spec.name == "score.weight",
               is_embedding = spec.kind == models::ParameterSpec::Kind::embedding,
               is_tied =
                   shape.tie_word_embeddings && shape.head == models::Head::language_model && stage.is_last();
    if (!spec.is_in_layer()) ends += spec.numel();
    if (is_head || (is_embedding && is_tied)) head = spec.numel();
    if (!is_embedding && !is_head && spec.weight_decay()) matrices += spec.numel();
  }
  int64_t all = 0, part = 0;
  for (const int64_t block : blocks) {
    all += block;
    part += zero_stage == 0 ? block : (block + dp - 1) / dp;
  }
  StateBytes bytes;
  bytes.masters = 4 * part;
  bytes.moments = 8 * part;
  bytes.gradient = 4 * part + (zero_stage == 1 ? 4 * all : 0);
  if (zero_stage == 0)
    bytes.weights = element == 4 ? 0 : element * all;
  else
    bytes.weights = element * (zero_stage == 3 ? ends : all);
  if (packed) bytes.packed = element * (head + (zero_stage == 3 ? 0 : matrices));
  return bytes;
}

}  // namespace trireme::sharding
