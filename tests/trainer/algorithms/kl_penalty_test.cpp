#include "trainer/algorithms/kl_penalty.h"

#include <gtest/gtest.h>

#include <ATen/ops/scalar_tensor.h>

#include "runtime/base/error.h"
#include "trainer/losses/kl_estimate.h"

namespace trireme::algorithms {
namespace {

TEST(KlPenalty, HasTheValuesOfTheLossesEstimates) {
  for (const char* type : {"kl", "k1", "abs", "mse", "k2", "low_var_kl", "k3", "kl+", "low_var_kl+"})
    for (const double log_prob : {-0.1, -1.0, -3.5, -50.0})
      for (const double reference : {-0.2, -1.0, -2.0, -60.0})
        EXPECT_NEAR(kl_of_token(log_prob, reference, type),
                    losses::kl_estimate(at::scalar_tensor(log_prob, at::kDouble),
                                        at::scalar_tensor(reference, at::kDouble), type)
                        .item<double>(),
                    1e-12)
            << type;
  EXPECT_THROW(kl_of_token(-1, -1, "k4"), Error);
}

TEST(KlController, AdaptiveMovesTheWeightTowardsTheTarget) {
  KlController controller({"adaptive", 0.5, 1000, 0.1});
  controller.update(0.11, 100);  // 10 % above the target: a tenth of 100 / 1000 more
  EXPECT_NEAR(controller.coefficient(), 0.5 * 1.01, 1e-12);
  controller.set_coefficient(0.5);
  controller.update(50.0, 100);  // the error counts up to 0.2
  EXPECT_DOUBLE_EQ(controller.coefficient(), 0.5 * 1.02);
  controller.set_coefficient(0.5);
  controller.update(-3.0, 100);
  EXPECT_DOUBLE_EQ(controller.coefficient(), 0.5 * 0.98);
}

TEST(KlController, FixedStaysWhereItIs) {
  KlController controller({"fixed", 0.5, 1000, 0.1});
  controller.update(50.0, 100);
  EXPECT_EQ(controller.coefficient(), 0.5);
}

}  // namespace
}  // namespace trireme::algorithms
