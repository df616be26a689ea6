#include "trainer/optim/adamw.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>

namespace trireme::optim {
namespace {

using Kind = models::ParameterSpec::Kind;

models::ParameterSet make_parameters() {
  models::ParameterSet parameters(
      {{"a", {3}, Kind::matrix}, {"b", {2}, Kind::bias}, {"c", {1, 2}, Kind::matrix}}, at::kCPU);
  parameters.enable_gradients();
  for (int64_t i = 0; i < 7; ++i) parameters.flat()[i] = 0.5 * static_cast<double>(i) - 1.0;
  return parameters;
}

TEST(AdamW, FollowsThePapersRecurrenceAndLeavesBiasesUndecayed) {
  auto parameters = make_parameters();
  OptimConfig config;
  config.beta1 = 0.9;
  config.beta2 = 0.99;
  config.weight_decay = 0.1;
  config.grad_clip = 0;
  AdamW optimizer(parameters, config);
  std::vector<double> x(7), m(7), v(7);
  for (size_t i = 0; i < 7; ++i) x[i] = 0.5 * static_cast<double>(i) - 1.0;
  for (int step = 1; step <= 5; ++step) {
    const double lr = 0.1 / step;
    for (size_t i = 0; i < 7; ++i) {
      const double gradient = std::sin(static_cast<double>(i) + step);
      parameters.flat_gradient()[static_cast<int64_t>(i)] = gradient;
      const bool decays = i < 3 || i >= 5;
      if (decays) x[i] -= lr * config.weight_decay * x[i];
      m[i] = config.beta1 * m[i] + (1 - config.beta1) * gradient;
      v[i] = config.beta2 * v[i] + (1 - config.beta2) * gradient * gradient;
      x[i] -= lr * (m[i] / (1 - std::pow(config.beta1, step))) /
              (std::sqrt(v[i] / (1 - std::pow(config.beta2, step))) + config.eps);
    }
    optimizer.step(lr);
    for (size_t i = 0; i < 7; ++i)
      EXPECT_NEAR(parameters.flat()[static_cast<int64_t>(i)].item<double>(), x[i], 1e-5) << i;
  }
  EXPECT_EQ(optimizer.updates(), 5);
}

TEST(AdamW, ClipsTheWholeGradientsNormAndReportsItUnclipped) {
  auto parameters = make_parameters();
  OptimConfig config;
  config.grad_clip = 1.0;
  AdamW optimizer(parameters, config);
  parameters.flat_gradient().fill_(2.0);
  EXPECT_NEAR(optimizer.step(0.0), 2.0 * std::sqrt(7.0), 1e-5);
  EXPECT_NEAR(parameters.flat_gradient().norm().item<double>(), 1.0, 1e-5);
}

TEST(AdamW, LeavesEverythingAsItIsWhereTheGradientIsNotFinite) {
  auto parameters = make_parameters();
  AdamW optimizer(parameters, {});
  const uint64_t before = parameters.checksum();
  parameters.flat_gradient()[3] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(std::isfinite(optimizer.step(0.1)));
  EXPECT_EQ(parameters.checksum(), before);
  EXPECT_EQ(optimizer.updates(), 0);
}

TEST(LearningRate, WarmsUpThenFollowsItsSchedule) {
  OptimConfig config;
  config.lr = 1.0;
  config.lr_warmup_steps = 4;
  EXPECT_DOUBLE_EQ(learning_rate(config, 0, 104), 0.25);
  EXPECT_DOUBLE_EQ(learning_rate(config, 3, 104), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(config, 90, 104), 1.0);
  config.lr_scheduler_type = "linear";
  config.min_lr_ratio = 0.2;
  EXPECT_DOUBLE_EQ(learning_rate(config, 54, 104), 0.2 + 0.8 * 0.5);
  EXPECT_NEAR(learning_rate(config, 104, 104), 0.2, 1e-12);
  config.lr_scheduler_type = "cosine";
  EXPECT_NEAR(learning_rate(config, 54, 104), 0.2 + 0.8 * 0.5, 1e-12);
  EXPECT_NEAR(learning_rate(config, 500, 104), 0.2, 1e-12);
}

// Several pieces, of which the last ones are short.
TEST(AdamW, MomentsThatAreOutsideGiveTheSameBits) {
  const auto make = [] {
    models::ParameterSet parameters({{"a", {2 * AdamW::kPiece + 77}, Kind::bias}, {"b", {3}, Kind::bias},
                                     {"c", {5, 1001}, Kind::matrix}},
                                    at::kCPU);
    parameters.enable_gradients();
    parameters.flat().copy_(at::arange(parameters.num_parameters(), at::kFloat).sin_());
    return parameters;
  };
  models::ParameterSet there = make(), outside = make();
  memory::Outside room(at::kCPU, testing::TempDir());
  AdamW kept(there, {}), aside(outside, {}, &room);
  EXPECT_EQ(room.most_bytes(), 2 * 4 * there.num_parameters());
  for (int step = 0; step < 3; ++step) {
    const at::Tensor gradient = at::arange(there.num_parameters(), at::kFloat).add_(step).cos_();
    there.flat_gradient().copy_(gradient);
    outside.flat_gradient().copy_(gradient);
    EXPECT_EQ(kept.step(0.1), aside.step(0.1));
    ASSERT_TRUE(there.flat().equal(outside.flat())) << step;
  }
  for (const auto which : {AdamW::first, AdamW::second})
    EXPECT_TRUE(kept.moment(which).equal(aside.moment(which)));
  // As a resumed run sets them.
  models::ParameterSet resumed = make();
  AdamW again(resumed, {}, &room);
  EXPECT_EQ(again.moment(AdamW::first).abs().max().item<float>(), 0.0f);
  for (const auto which : {AdamW::first, AdamW::second}) again.set_moment(which, kept.moment(which));
  EXPECT_TRUE(again.moment(AdamW::second).equal(kept.moment(AdamW::second)));
}

}  // namespace
}  // namespace trireme::optim
