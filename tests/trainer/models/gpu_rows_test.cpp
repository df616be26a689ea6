// The GPU row kernels on the double of a GPU, against plain arithmetic in fp64 and against themselves in
// other batches.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include "tests/trainer/models/gpu_kernels_double.h"
#include "trainer/models/device_batch.h"
#include "trainer/models/device_ops.h"
#include "trainer/models/reference_ops.h"

namespace trireme::models {
namespace {

class GpuRows : public testing::Test {
 protected:
  void SetUp() override { device::use_double(&gpu_kernels_double()); }
  void TearDown() override { device::use_double(nullptr); }
};

void expect_near(const at::Tensor& a, const at::Tensor& b, double tolerance) {
  ASSERT_EQ(a.sizes(), b.sizes());
  EXPECT_LE((a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>(), tolerance);
}

TEST_F(GpuRows, NormsActivationAndRotationAreThoseOfTheOracle) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16})
    for (const int64_t dim : {64, 896, 1027}) {
      const double tolerance = dtype == at::kFloat ? 4e-6 : 4e-2;
      const at::Tensor x = at::randn({5, dim}).to(dtype), y = at::randn({5, dim}).to(dtype);
      Weight weight;
      weight.value = at::randn({dim}).to(dtype);
      expect_near(device::rms_norm(x, weight, 1e-6), reference::rms_norm(x, weight.value, 1e-6), tolerance);
      at::Tensor residual = x;
      const at::Tensor normed = device::add_rms_norm(residual, y, weight, 1e-6);
      EXPECT_TRUE(at::equal(residual, x + y));
      EXPECT_TRUE(at::equal(normed, device::rms_norm(x + y, weight, 1e-6)));
      // A row alone has the bits that it has among others.
      EXPECT_TRUE(at::equal(device::rms_norm(x.narrow(0, 3, 1), weight, 1e-6),
                            device::rms_norm(x, weight, 1e-6).narrow(0, 3, 1)));
      const at::Tensor gate_up = 4 * at::randn({5, 2 * dim}).to(dtype);
      expect_near(device::silu_mul(gate_up), reference::silu_mul(gate_up), 20 * tolerance);
    }
}

TEST_F(GpuRows, SiluAtItsEnds) {
  const float ends[] = {-1e30f, -100.0f, -88.5f, 0.0f, 88.5f, 1e30f, 1, 1, 1, 1, 1, 1};
  const at::Tensor out =
      device::silu_mul(at::from_blob(const_cast<float*>(ends), {1, 12}, at::kFloat).clone());
  const float* y = out.const_data_ptr<float>();
  for (int i : {0, 1, 2, 3}) EXPECT_NEAR(y[i], 0.0f, 1e-30);
  EXPECT_EQ(y[4], 88.5f);
  EXPECT_EQ(y[5], 1e30f);
}

TEST_F(GpuRows, HeadsAreNormedAndRotatedAndWrittenToTheirSlots) {
  const AttentionDims dims{6, 2, 64};
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const double tolerance = dtype == at::kFloat ? 4e-6 : 4e-2;
    const at::Tensor qkv = at::randn({7, dims.qkv_width()}).to(dtype);
    Weight q_weight, k_weight;
    q_weight.value = at::randn({64}).to(dtype);
    k_weight.value = at::randn({64}).to(dtype);
    expect_near(device::qk_norm(qkv, q_weight, k_weight, dims, 1e-6),
                reference::qk_norm(qkv, q_weight.value, k_weight.value, dims, 1e-6), tolerance);

    const at::Tensor positions = at::randint(0, 50, {7}, at::kInt), rope = at::randn({50, 64});
    const int32_t slots[] = {4, 9, 0, 11, 7, 3, 2};
    const at::Tensor q = at::empty({7, 6 * 64}, dtype), keys = at::randn({12, 2, 64}).to(dtype),
                     before = keys.clone(), values = at::randn({12, 2, 64}).to(dtype);
    gpu_kernels_double().rotary({{6, 2, 64},
                                 dtype == at::kFloat ? Element::f32 : Element::bf16,
                                 qkv.const_data_ptr(),
                                 qkv.stride(0),
                                 7,
                                 positions.const_data_ptr<int32_t>(),
                                 rope.const_data_ptr<float>(),
                                 q.mutable_data_ptr(),
                                 6 * 64,
                                 keys.mutable_data_ptr(),
                                 values.mutable_data_ptr(),
                                 2 * 64,
                                 slots},
                                nullptr);
    const auto parts = qkv.split_with_sizes({6 * 64, 2 * 64, 2 * 64}, 1);
    expect_near(q.view({7, 6, 64}), reference::rotary(parts[0].view({7, 6, 64}), positions, rope), tolerance);
    const at::Tensor k = reference::rotary(parts[1].view({7, 2, 64}), positions, rope);
    for (int64_t row = 0; row < 7; ++row) {
      expect_near(keys[slots[row]], k[row], tolerance);
      EXPECT_TRUE(at::equal(values[slots[row]].view({-1}), parts[2][row]));
    }
    for (const int64_t untouched : {1, 5, 6, 8, 10})
      EXPECT_TRUE(at::equal(keys[untouched], before[untouched]));
  }
}

TEST_F(GpuRows, SoftmaxStatistics) {
  for (const int64_t vocab : {1, 31, 1024, 1025, 4096, 5003}) {
    const at::Tensor logits = 6 * at::randn({4, vocab});
    const at::Tensor temperature = at::rand({4}) + 0.5;
    const at::Tensor words = device::softmax_stats(logits, temperature).rows, stats = words.view(at::kFloat);
    const at::Tensor scaled = (logits * temperature.unsqueeze(1)).to(at::kDouble);
    expect_near(stats.select(1, 0), std::get<0>(scaled.max(1)), 1e-6);
    expect_near(stats.select(1, 1), scaled.logsumexp(1), 4e-6);
    const at::Tensor log_p = at::log_softmax(scaled, 1);
    expect_near(stats.select(1, 2), -(log_p.exp() * log_p).sum(1), 4e-6);
    EXPECT_TRUE(at::equal(words.select(1, 3).to(at::kLong), scaled.argmax(1)));
    EXPECT_TRUE(at::equal(
        device::softmax_stats(logits.narrow(0, 2, 1).contiguous(), temperature.narrow(0, 2, 1)).rows,
        words.narrow(0, 2, 1)));
  }
}

TEST_F(GpuRows, WhatIsNotANumberShowsInTheStatistics) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    const at::Tensor logits = at::randn({2, 3000});
    logits[1][2047] = bad;
    const at::Tensor stats = device::softmax_stats(logits, at::Tensor()).rows.view(at::kFloat);
    EXPECT_TRUE(std::isfinite(stats[0][1].item<float>() + stats[0][2].item<float>()));
    EXPECT_FALSE(std::isfinite(stats[1][1].item<float>() + stats[1][2].item<float>())) << bad;
  }
}

}  // namespace
}  // namespace trireme::models
