#include "trainer/models/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "trainer/models/config_fields.h"

namespace trireme::models {
namespace {

using Type = RopeScaling::Type;

constexpr int64_t kMaxPositions = int64_t{1} << 30;

// Of YaRN's attention factor: how much the logits' temperature changes with the stretch.
double yarn_magnitude(double factor, double scale) {
  return factor <= 1.0 ? 1.0 : 0.1 * scale * std::log(factor) + 1.0;
}

void read_yarn(ConfigFields& fields, RopeScaling& scaling) {
  scaling.beta_fast = fields.number("beta_fast", 32.0);
  scaling.beta_slow = fields.number("beta_slow", 1.0);
  scaling.truncate = fields.flag("truncate", true);
  const bool both = fields.has("mscale") && fields.has("mscale_all_dim");
  const double scale = fields.number("mscale", 1.0), all = fields.number("mscale_all_dim", 1.0);
  const double implied = both ? yarn_magnitude(scaling.factor, scale) / yarn_magnitude(scaling.factor, all)
                              : yarn_magnitude(scaling.factor, 1.0);
  scaling.attention_factor = fields.number("attention_factor", implied);
}

// Of the kinds that stretch each frequency by what it means within the original length.
void read_stretch(ConfigFields& fields, const std::string& type, int64_t original_max_positions,
                  RopeScaling& scaling) {
  scaling.original_max_positions = static_cast<double>(
      fields.count("original_max_position_embeddings", kMaxPositions, original_max_positions));
  scaling.type = type == "yarn" ? Type::yarn : Type::llama3;
  if (type == "yarn") {
    read_yarn(fields, scaling);
  } else {
    scaling.low_freq_factor = fields.number("low_freq_factor");
    scaling.high_freq_factor = fields.number("high_freq_factor");
    if (scaling.high_freq_factor <= scaling.low_freq_factor)
      fields.mistake("high_freq_factor", "must be greater than low_freq_factor");
  }
}

RopeScaling read_scaling(ConfigFields& fields, int64_t original_max_positions) {
  RopeScaling scaling;
  // The older name; where both stand, they say the same.
  const std::string old_name = fields.text("type", "default");
  const std::string type = fields.text("rope_type", old_name);
  if (fields.has("type") && type != old_name)
    fields.mistake("type", fmt::format("'{}' differs from rope_type '{}'; keep one of them", old_name, type));
  fields.must_be("partial_rotary_factor", {1.0});
  if (type != "default" && type != "linear" && type != "llama3" && type != "yarn") {
    fields.mistake("rope_type",
                   fmt::format("'{}' is not supported; supported: default, linear, llama3, yarn", type));
    return scaling;
  }
  if (type != "default") scaling.factor = fields.number("factor");
  if (type == "linear") scaling.type = Type::linear;
  if (type == "llama3" || type == "yarn") read_stretch(fields, type, original_max_positions, scaling);
  fields.refuse_the_rest();
  return scaling;
}

// What follows rounds to fp32 where the reference implementations do: at position 100,000 the last bit of a
// frequency is a hundredth of a radian.

void stretch_llama3(const RopeScaling& scaling, std::vector<float>& frequencies) {
  const float factor = static_cast<float>(scaling.factor),
              length = static_cast<float>(scaling.original_max_positions),
              low = static_cast<float>(scaling.low_freq_factor),
              high = static_cast<float>(scaling.high_freq_factor);
  for (float& frequency : frequencies) {
    const float wavelength = 2.0f * std::numbers::pi_v<float> / frequency;
    if (wavelength > length / low) {
      frequency /= factor;
    } else if (wavelength >= length / high) {
      const float smooth = (length / wavelength - low) / (high - low);
      frequency = (1.0f - smooth) * frequency / factor + smooth * frequency;
    }
  }
}

void stretch_yarn(double theta, const RopeScaling& scaling, int64_t head_dim,
                  std::vector<float>& frequencies) {
  const auto dim = static_cast<double>(head_dim);
  // The dimension that makes so many turns within the original length.
  const auto dimension_of = [&](double turns) {
    return dim * std::log(scaling.original_max_positions / (turns * 2.0 * std::numbers::pi)) /
           (2.0 * std::log(theta));
  };
  double low = dimension_of(scaling.beta_fast), high = dimension_of(scaling.beta_slow);
  if (scaling.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1.0);
  if (low == high) high += 0.001;
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const float ramp = std::clamp(
        (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low), 0.0f, 1.0f);
    const float keep = 1.0f - ramp;
    const float stretched = frequencies[i] / static_cast<float>(scaling.factor);
    frequencies[i] = stretched * (1.0f - keep) + frequencies[i] * keep;
  }
}

}  // namespace

RopeScaling read_rope(ConfigFields& fields, int64_t max_position_embeddings, double& theta) {
  theta = fields.number("rope_theta", 10000.0);
  // Some checkpoints keep the original length beside the object; it takes precedence there too.
  const bool beside = fields.has("original_max_position_embeddings");
  const int64_t original =
      fields.count("original_max_position_embeddings", kMaxPositions, max_position_embeddings);
  const nlohmann::json& old_object = fields.value("rope_scaling");
  const nlohmann::json& new_object = fields.value("rope_parameters");
  for (const char* name : {"rope_scaling", "rope_parameters"})
    if (const auto& object = fields.value(name); !object.is_null() && !object.is_object()) {
      fields.mistake(name, fmt::format("must be an object, is {}", shown(object)));
      return {};
    }
  const bool is_old = !old_object.is_null() && !old_object.empty();
  if (is_old && !new_object.is_null() && !new_object.empty() && old_object != new_object)
    fields.mistake("rope_scaling", "differs from rope_parameters; keep one of them");
  const nlohmann::json& object = is_old ? old_object : new_object;
  if (object.is_null()) return {};
  ConfigFields inner = fields.within(object, is_old ? "rope_scaling" : "rope_parameters");
  const double inner_theta = inner.number("rope_theta", theta);
  if (fields.has("rope_theta") && inner_theta != theta)
    inner.mistake("rope_theta",
                  fmt::format("{} differs from rope_theta {}; keep one of them", inner_theta, theta));
  theta = inner_theta;
  RopeScaling scaling = read_scaling(inner, original);
  if (beside) scaling.original_max_positions = static_cast<double>(original);
  return scaling;
}

void write_rope(double theta, const RopeScaling& scaling, nlohmann::ordered_json& config) {
  config["rope_theta"] = theta;
  if (scaling.type == Type::none) return;
  nlohmann::ordered_json& object = config["rope_scaling"];
  object["rope_type"] = scaling.type == Type::linear   ? "linear"
                        : scaling.type == Type::llama3 ? "llama3"
                                                       : "yarn";
  object["factor"] = scaling.factor;
  if (scaling.type == Type::linear) return;
  object["original_max_position_embeddings"] = static_cast<int64_t>(scaling.original_max_positions);
  if (scaling.type == Type::llama3) {
    object["low_freq_factor"] = scaling.low_freq_factor;
    object["high_freq_factor"] = scaling.high_freq_factor;
  } else {
    object["beta_fast"] = scaling.beta_fast;
    object["beta_slow"] = scaling.beta_slow;
    object["truncate"] = scaling.truncate;
    object["attention_factor"] = scaling.attention_factor;
  }
}

std::vector<float> rope_frequencies(double theta, const RopeScaling& scaling, int64_t head_dim) {
  std::vector<float> frequencies(static_cast<size_t>(head_dim / 2));
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(head_dim);
    frequencies[i] = 1.0f / static_cast<float>(std::pow(theta, static_cast<double>(exponent)));
  }
  switch (scaling.type) {
    case Type::none:
      break;
    case Type::linear:
      for (float& frequency : frequencies) frequency /= static_cast<float>(scaling.factor);
      break;
    case Type::llama3:
      stretch_llama3(scaling, frequencies);
      break;
    case Type::yarn:
      stretch_yarn(theta, scaling, head_dim, frequencies);
      break;
  }
  return frequencies;
}

}  // namespace trireme::models
