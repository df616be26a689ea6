// Rotary frequencies against transformers' at real sizes, by tools/make_goldens/decoder.py.
#include "trainer/models/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>
#include <nlohmann/json.hpp>

#include "runtime/base/files.h"
#include "trainer/models/config_fields.h"
#include "trainer/models/rope_table.h"

namespace trireme::models {
namespace {

TEST(Rope, FrequenciesAreThoseOfTransformers) {
  const std::string path =
      std::string(std::getenv("TRIREME_SOURCE_DIR")) + "/tests/trainer/models/goldens/rope.json";
  for (const auto& golden : nlohmann::json::parse(files::read(path))) {
    const nlohmann::json& config = golden.at("config");
    Mistakes mistakes;
    ConfigFields fields(config, mistakes);
    double theta = 0;
    const RopeScaling scaling = read_rope(fields, config.at("max_position_embeddings"), theta);
    mistakes.throw_if_any("");
    const auto ours = rope_frequencies(theta, scaling, config.at("head_dim"));
    const std::vector<double> theirs = golden.at("frequencies");
    ASSERT_EQ(ours.size(), theirs.size());
    // One unit in the last place of fp32; more where llama3 and YaRN blend two frequencies.
    const double tolerance = scaling.type == RopeScaling::Type::none ? 1.2e-7 : 5e-7;
    for (size_t i = 0; i < ours.size(); ++i)
      EXPECT_NEAR(ours[i] / theirs[i], 1.0, tolerance) << config << " pair " << i;
    EXPECT_NEAR(scaling.attention_factor, golden.at("attention_factor").get<double>(), 1e-7);
  }
}

TEST(Rope, ATableThatGrowsKeepsItsRows) {
  DecoderShape shape;
  shape.head_dim = 6;
  shape.rope_scaling.attention_factor = 1.5;
  const RopeTable table(shape);
  const at::Tensor first = table.up_to(3);
  const at::Tensor copy = first.clone();
  const at::Tensor grown = table.up_to(first.size(0) + 1);
  EXPECT_GT(grown.size(0), first.size(0));
  EXPECT_TRUE(at::equal(grown.narrow(0, 0, first.size(0)), first));
  EXPECT_TRUE(at::equal(first, copy));
  const double angle = static_cast<double>(first.size(0)) * std::pow(10000.0, -2.0 / 6.0);
  EXPECT_NEAR(grown[first.size(0)][1].item<double>(), 1.5 * std::cos(angle), 1e-5);
  EXPECT_NEAR(grown[first.size(0)][4].item<double>(), 1.5 * std::sin(angle), 1e-5);
}

}  // namespace
}  // namespace trireme::models
