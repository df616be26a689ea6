#include "trainer/models/weight_gradient.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include "runtime/base/error.h"

namespace trireme::models {
namespace {

struct Threads {
  int before = at::get_num_threads();
  explicit Threads(int count) { at::set_num_threads(count); }
  ~Threads() { at::set_num_threads(before); }
};

at::Tensor random(int64_t rows, int64_t columns, at::ScalarType dtype) {
  return at::randn({rows, columns}, at::kFloat).to(dtype);
}

at::Tensor sum_of_products(const at::Tensor& grad_y, const at::Tensor& x, at::Tensor start) {
  add_weight_gradient(grad_y, x, start);
  return start;
}

// rows, outputs, inputs: one row, odd depths, more than a block of rows, edges of tiles of every set.
using Shape = std::tuple<int64_t, int64_t, int64_t>;
class WeightGradient : public testing::TestWithParam<std::tuple<at::ScalarType, Shape>> {};

TEST_P(WeightGradient, IsTheSumOfOuterProductsInDoublePrecision) {
  const auto [dtype, shape] = GetParam();
  const auto [rows, outputs, inputs] = shape;
  const at::Tensor grad_y = random(rows, outputs, dtype), x = random(rows, inputs, dtype);
  const at::Tensor start = random(outputs, inputs, at::kFloat);
  const at::Tensor exact = start.to(at::kDouble) + at::mm(grad_y.to(at::kDouble).t(), x.to(at::kDouble));
  const at::Tensor scale =
      start.abs().to(at::kDouble) + at::mm(grad_y.to(at::kDouble).abs().t(), x.to(at::kDouble).abs());
  const at::Tensor got = sum_of_products(grad_y, x, start.clone());
  // A sum of n terms in fp32 is within n / 2^24 of the sum of their sizes; a chain has at most 512.
  const double worst = ((got.to(at::kDouble) - exact).abs() / scale).max().item<double>();
  EXPECT_LT(worst, 512.0 / (1 << 24));
}

TEST_P(WeightGradient, HasTheSameBitsForAnyNumberOfThreads) {
  const auto [dtype, shape] = GetParam();
  const auto [rows, outputs, inputs] = shape;
  const at::Tensor grad_y = random(rows, outputs, dtype), x = random(rows, inputs, dtype);
  const at::Tensor start = random(outputs, inputs, at::kFloat);
  at::Tensor one;
  {
    const Threads threads(1);
    one = sum_of_products(grad_y, x, start.clone());
  }
  for (const int count : {2, 3, 7}) {
    const Threads threads(count);
    EXPECT_TRUE(sum_of_products(grad_y, x, start.clone()).equal(one)) << count << " threads";
  }
}

std::string name_of_case(const testing::TestParamInfo<WeightGradient::ParamType>& info) {
  const auto [rows, outputs, inputs] = std::get<1>(info.param);
  return std::string(std::get<0>(info.param) == at::kFloat ? "fp32_" : "bf16_") + std::to_string(rows) + "_" +
         std::to_string(outputs) + "_" + std::to_string(inputs);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, WeightGradient,
    testing::Combine(testing::Values(at::kFloat, at::kBFloat16),
                     testing::Values(Shape{1, 1, 1}, Shape{1, 40, 33}, Shape{3, 5, 7}, Shape{17, 12, 32},
                                     Shape{511, 13, 31}, Shape{512, 24, 64}, Shape{513, 25, 65},
                                     Shape{1300, 100, 96}, Shape{9, 6150, 8}, Shape{6, 3, 2000})),
    name_of_case);

TEST(WeightGradientOperands, MayBePartsOfWiderRows) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const at::Tensor wide_grad = random(70, 90, dtype), wide_x = random(70, 80, dtype);
    const at::Tensor grad_y = wide_grad.narrow(1, 11, 50), x = wide_x.narrow(1, 3, 41);
    const at::Tensor whole = at::zeros({50, 60}, at::kFloat), part = whole.narrow(1, 7, 41);
    add_weight_gradient(grad_y, x, part);
    EXPECT_TRUE(
        part.equal(sum_of_products(grad_y.contiguous(), x.contiguous(), at::zeros({50, 41}, at::kFloat))));
    EXPECT_EQ(whole.narrow(1, 0, 7).abs().max().item<float>(), 0.0f);
    EXPECT_EQ(whole.narrow(1, 48, 12).abs().max().item<float>(), 0.0f);
  }
}

TEST(WeightGradientOperands, ThatDoNotFitAreRefused) {
  const at::Tensor gradient = at::zeros({4, 5}, at::kFloat);
  EXPECT_THROW(add_weight_gradient(random(3, 4, at::kFloat), random(2, 5, at::kFloat), gradient), Error);
  EXPECT_THROW(add_weight_gradient(random(3, 4, at::kFloat), random(3, 6, at::kFloat), gradient), Error);
  EXPECT_THROW(add_weight_gradient(random(3, 4, at::kFloat), random(3, 5, at::kBFloat16), gradient), Error);
  EXPECT_THROW(add_weight_gradient(random(4, 3, at::kFloat).t(), random(3, 5, at::kFloat), gradient), Error);
}

}  // namespace
}  // namespace trireme::models
