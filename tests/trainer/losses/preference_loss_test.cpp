// Every type of loss on a pair beside tools/make_goldens/preference.py, which has the formulas in NumPy.
#include "trainer/losses/preference_loss.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>

#include <ATen/TensorOperators.h>
#include <ATen/ops/from_blob.h>

#include "runtime/base/error.h"
#include "runtime/base/files.h"

namespace trireme::losses {
namespace {

at::Tensor doubles(std::vector<double> values) {
  return at::from_blob(values.data(), {static_cast<int64_t>(values.size())}, at::kDouble).clone();
}

PreferencePairs pairs_of(const nlohmann::json& item) {
  return {doubles(item.at("chosen")).requires_grad_(true), doubles(item.at("rejected")).requires_grad_(true),
          doubles(item.at("chosen_tokens")), doubles(item.at("rejected_tokens"))};
}

void expect_near(const at::Tensor& values, const nlohmann::json& expected, double tolerance) {
  ASSERT_EQ(values.numel(), static_cast<int64_t>(expected.size()));
  for (int64_t i = 0; i < values.numel(); ++i) {
    const double wanted = expected[static_cast<size_t>(i)];
    EXPECT_NEAR(values[i].item<double>(), wanted, tolerance * (1 + std::abs(wanted))) << i;
  }
}

TEST(PreferenceLoss, ValuesAndGradientsEqualTheFormulasInNumPy) {
  const auto file = nlohmann::json::parse(files::read(std::string(std::getenv("TRIREME_SOURCE_DIR")) +
                                                      "/tests/trainer/losses/goldens/preference.json"));
  std::set<std::string> types;
  for (const auto& item : file)
    for (const auto& expected : item.at("expected")) {
      PreferenceLossConfig config;
      config.loss_type = expected.at("type");
      config.beta = expected.at("beta");
      config.label_smoothing = expected.at("label_smoothing");
      types.insert(config.loss_type);
      SCOPED_TRACE(item.at("name").get<std::string>() + ", " + config.loss_type);
      const PreferencePairs pairs = pairs_of(item);
      const at::Tensor losses = preference_losses(pairs, config);
      expect_near(losses, expected.at("losses"), 1e-9);
      losses.sum().backward();
      expect_near(pairs.chosen_P.grad(), expected.at("chosen_gradient"), 1e-6);  // of differences
      expect_near(pairs.rejected_P.grad(), expected.at("rejected_gradient"), 1e-6);
    }
  EXPECT_EQ(types, std::set<std::string>(std::begin(kPreferenceLosses), std::end(kPreferenceLosses)));
}

TEST(PreferenceLoss, AnUnknownTypeIsRefused) {
  PreferenceLossConfig config;
  config.loss_type = "sigmoids";
  EXPECT_THROW(preference_losses({doubles({0}), doubles({0}), doubles({1}), doubles({1})}, config), Error);
}

}  // namespace
}  // namespace trireme::losses
