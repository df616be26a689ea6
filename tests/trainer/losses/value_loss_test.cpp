// The critic's loss beside tools/make_goldens/objectives.py, which has the formula in NumPy, and central
// differences for gradients; and what it does at its edges.
#include "trainer/losses/value_loss.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>

#include "runtime/base/files.h"
#include "tests/trainer/losses/tokens.h"

namespace trireme::losses {
namespace {

// Weights and shares are those of any loss.
ValueTokens values_of(const std::vector<float>& values, const std::vector<float>& old,
                      const std::vector<float>& returns, std::vector<int64_t> lengths = {},
                      std::vector<float> mask = {}, const std::string& mode = "token-mean",
                      int64_t scale = 1) {
  const PolicyTokens tokens =
      tokens_of(values, old, returns, std::move(lengths), std::move(mask), mode, scale);
  return {tokens.log_probs_N, tokens.old_log_probs_N, tokens.advantages_N, tokens.weights_N, tokens.shares_N};
}

std::vector<float> flat(const nlohmann::json& rows) {
  std::vector<float> result;
  for (const auto& row : rows)
    for (const auto& value : row) result.push_back(value.get<float>());
  return result;
}

TEST(ValueLoss, ValuesAndGradientsEqualTheFormulaInNumPy) {
  const auto file = nlohmann::json::parse(files::read(std::string(std::getenv("TRIREME_SOURCE_DIR")) +
                                                      "/tests/trainer/losses/goldens/value.json"));
  std::set<std::string> aggregations;
  ASSERT_GE(file.at("cases").size(), 6U);
  for (const auto& batch : file.at("cases"))
    for (const auto& expected : batch.at("expected")) {
      const std::string mode = expected.at("aggregation");
      aggregations.insert(mode);
      SCOPED_TRACE(batch.at("name").get<std::string>() + ", " + mode);
      const ValueTokens tokens =
          values_of(flat(batch.at("values")), flat(batch.at("old")), flat(batch.at("returns")),
                    batch.at("lengths"), flat(batch.at("mask")), mode, file.at("scale"));
      const ValueLoss result = value_loss(tokens, file.at("cliprange"));
      const double loss = expected.at("loss");
      EXPECT_NEAR(result.loss.item<double>(), loss, 1e-5 * (1 + std::abs(loss)));
      EXPECT_NEAR(result.clipped, batch.at("clipped").get<double>(), 1e-6);
      EXPECT_NEAR(result.mean, batch.at("mean").get<double>(), 1e-5);
      result.loss.backward();
      const auto slopes = flat(expected.at("gradient"));
      for (size_t i = 0; i < slopes.size(); ++i)
        EXPECT_NEAR(tokens.values_N.grad()[static_cast<int64_t>(i)].item<double>(), slopes[i],
                    1e-5 * (1 + std::abs(slopes[i])))
            << i;
    }
  EXPECT_EQ(aggregations.size(), 5U);
}

TEST(ValueLoss, StopsAValueThatHasGoneFarEnough) {
  // Both are on their way to 5; the second has moved by more than 0.5.
  const ValueTokens tokens = values_of({0.3F, 0.7F}, {0, 0}, {5, 5}, {}, {}, "token-sum");
  const ValueLoss result = value_loss(tokens, 0.5);
  result.loss.backward();
  EXPECT_NEAR(tokens.values_N.grad()[0].item<double>(), 0.3 - 5, 1e-6);
  EXPECT_EQ(tokens.values_N.grad()[1].item<double>(), 0.0);
  EXPECT_EQ(result.clipped, 0.5);
}

TEST(ValueLoss, PullsBackAValueThatMovedAwayFromItsReturn) {
  // Far beyond the clip, and on the wrong side: the loss is the greater of both, which is the value's own.
  const ValueTokens tokens = values_of({3.0F}, {1.0F}, {0.0F});
  value_loss(tokens, 0.5).loss.backward();
  EXPECT_NEAR(tokens.values_N.grad()[0].item<double>(), 3.0, 1e-6);
}

TEST(ValueLoss, OfMaskedTokensIsNothing) {
  const ValueTokens tokens = values_of({1, 2, 3}, {0, 0, 0}, {9, 9, 9}, {2, 1}, {0, 0, 0});
  const ValueLoss result = value_loss(tokens, 0.5);
  result.loss.backward();
  EXPECT_EQ(result.loss.item<double>(), 0.0);
  EXPECT_EQ(tokens.values_N.grad().abs().sum().item<double>(), 0.0);
  EXPECT_EQ(result.mean, 0.0);
}

}  // namespace
}  // namespace trireme::losses
