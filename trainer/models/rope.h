// Rotary position embedding: by which angle each pair of a head's dimensions turns from one position to the
// next, and how checkpoints stretch that to longer texts. Torch-free.
#pragma once

#include <cstdint>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace trireme::models {

class ConfigFields;

struct RopeScaling {
  enum class Type { none, linear, llama3, yarn };
  Type type = Type::none;
  double factor = 1.0;
  double original_max_positions = 0.0;                   // llama3, yarn: the length before stretching
  double low_freq_factor = 1.0, high_freq_factor = 4.0;  // llama3
  double beta_fast = 32.0, beta_slow = 1.0;              // yarn: turns within that length
  bool truncate = true;                                  // yarn: the range of blending in whole dimensions
  double attention_factor = 1.0;                         // yarn: multiplies cos and sin
};

/// Reads `rope_theta`, `rope_scaling` and `rope_parameters`, in the forms that checkpoints have had.
RopeScaling read_rope(ConfigFields& fields, int64_t max_position_embeddings, double& theta);
/// Writes `rope_theta` and, where there is scaling, `rope_scaling`.
void write_rope(double theta, const RopeScaling& scaling, nlohmann::ordered_json& config);

/// Radians per position of each pair of dimensions, [head_dim / 2].
std::vector<float> rope_frequencies(double theta, const RopeScaling& scaling, int64_t head_dim);

}  // namespace trireme::models
