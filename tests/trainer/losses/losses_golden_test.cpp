// Values and gradients of every variant, aggregation and estimate of the KL beside
// tools/make_goldens/objectives.py, which has the formulas in NumPy, and central differences for gradients.
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>

#include "runtime/base/files.h"
#include "tests/trainer/losses/tokens.h"
#include "trainer/losses/kl_estimate.h"

namespace trireme::losses {
namespace {

nlohmann::json golden(const std::string& name) {
  return nlohmann::json::parse(
      files::read(std::string(std::getenv("TRIREME_SOURCE_DIR")) + "/tests/trainer/losses/goldens/" + name));
}

std::vector<float> flat(const nlohmann::json& rows) {
  std::vector<float> result;
  for (const auto& row : rows)
    for (const auto& value : row) result.push_back(value.get<float>());
  return result;
}

TEST(PolicyLossGoldens, ValuesAndGradientsEqualTheFormulasInNumPy) {
  const auto file = golden("policy.json");
  const auto& constants = file.at("constants");
  PolicyLossConfig config;
  for (const auto& [name, value] :
       {std::pair{"clip_ratio_low", &config.clip_ratio_low},
        std::pair{"clip_ratio_high", &config.clip_ratio_high},
        std::pair{"clip_ratio_c", &config.clip_ratio_c}, std::pair{"tau_pos", &config.tau_pos},
        std::pair{"tau_neg", &config.tau_neg}, std::pair{"clip_cov_ratio", &config.clip_cov_ratio},
        std::pair{"clip_cov_lb", &config.clip_cov_lb}, std::pair{"clip_cov_ub", &config.clip_cov_ub},
        std::pair{"kl_cov_ratio", &config.kl_cov_ratio}, std::pair{"ppo_kl_coef", &config.ppo_kl_coef}})
    constants.at(name).get_to(*value);
  std::set<std::string> modes, aggregations;
  for (const auto& batch : file.at("cases"))
    for (const auto& expected : batch.at("expected")) {
      config.loss_mode = expected.at("mode");
      config.loss_agg_mode = expected.at("aggregation");
      modes.insert(config.loss_mode);
      aggregations.insert(config.loss_agg_mode);
      SCOPED_TRACE(batch.at("name").get<std::string>() + ", " + config.loss_mode + ", " +
                   config.loss_agg_mode);
      PolicyTokens tokens = tokens_of(flat(batch.at("log_probs")), flat(batch.at("old")),
                                      flat(batch.at("advantages")), batch.at("lengths"),
                                      flat(batch.at("mask")), aggregation_of(config), constants.at("scale"));
      if (!batch.at("importance").empty()) tokens.importance_N = tensor(flat(batch.at("importance")));
      const PolicyLoss result = policy_loss(tokens, config);
      const double loss = expected.at("loss");
      EXPECT_NEAR(result.loss.item<double>(), loss, 1e-5 * (1 + std::abs(loss)));
      result.loss.backward();
      const at::Tensor gradient = tokens.log_probs_N.grad();
      const auto slopes = flat(expected.at("gradient"));
      for (size_t i = 0; i < slopes.size(); ++i)
        EXPECT_NEAR(gradient[static_cast<int64_t>(i)].item<double>(), slopes[i],
                    1e-5 * (1 + std::abs(slopes[i])))
            << i;
    }
  EXPECT_EQ(modes.size(), std::size(kLossModes));
  EXPECT_EQ(aggregations.size(), 5U);
}

TEST(KlGoldens, ValuesAndGradientsEqualTheFormulasInNumPy) {
  const auto file = golden("kl.json");
  const at::Tensor reference = tensor(file.at("reference").get<std::vector<float>>());
  ASSERT_EQ(file.at("expected").size(), 14U);
  for (const auto& expected : file.at("expected")) {
    SCOPED_TRACE(expected.at("type").get<std::string>());
    const at::Tensor fresh = tensor(file.at("log_probs").get<std::vector<float>>()).requires_grad_(true);
    const at::Tensor kl = kl_estimate(fresh, reference, expected.at("type"));
    kl.sum().backward();
    for (int64_t i = 0; i < fresh.numel(); ++i) {
      const double value = expected.at("value")[static_cast<size_t>(i)];
      const double slope = expected.at("gradient")[static_cast<size_t>(i)];
      EXPECT_NEAR(kl[i].item<double>(), value, 1e-5 * (1 + std::abs(value))) << i;
      EXPECT_NEAR(fresh.grad()[i].item<double>(), slope, 1e-5 * (1 + std::abs(slope))) << i;
    }
  }
}

}  // namespace
}  // namespace trireme::losses
