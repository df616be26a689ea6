// The kernels on a real GPU, against the same kernels' source on the host: the same bits, where no library's
// logarithm comes in.
#include <gtest/gtest.h>

#include <optional>

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include "tests/trainer/models/gpu_kernels_double.h"
#include "trainer/models/decoder.h"
#include "trainer/models/device_ops.h"

namespace trireme::models {
namespace {

std::optional<std::string> no_gpu() {
  if (!gpu_kernels()) return "this build has no GPU kernels";
  if (!at::globalContext().hasCUDA()) return "no usable GPU";
  return std::nullopt;
}

#define NEEDS_GPU() \
  if (const auto reason = no_gpu()) GTEST_SKIP() << *reason

/// What `body` makes of tensors on the GPU, and what the double makes of them on the host.
template <typename Body>
void expect_same_bits(const Body& body) {
  const at::Tensor on_gpu = body(at::Device(at::kCUDA, 0)).cpu();
  device::use_double(&gpu_kernels_double());
  const at::Tensor on_host = body(at::Device(at::kCPU));
  device::use_double(nullptr);
  EXPECT_TRUE(at::equal(on_gpu, on_host))
      << (on_gpu.to(at::kFloat) - on_host.to(at::kFloat)).abs().max().item<float>();
}

TEST(GpuOps, RowsHaveTheBitsOfTheDouble) {
  NEEDS_GPU();
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const AttentionDims dims{14, 2, 64};
    const at::Tensor x = at::randn({33, 896}).to(dtype), y = at::randn({33, 896}).to(dtype),
                     w = at::randn({896}).to(dtype), gate_up = at::randn({33, 2 * 4864}).to(dtype),
                     qkv = at::randn({33, dims.qkv_width()}).to(dtype), q = at::randn({64}).to(dtype);
    const auto weight = [](const at::Tensor& value) {
      Weight made;
      made.value = value;
      return made;
    };
    expect_same_bits([&](at::Device on) { return device::rms_norm(x.to(on), weight(w.to(on)), 1e-6); });
    expect_same_bits([&](at::Device on) {
      at::Tensor residual = x.to(on);
      return device::add_rms_norm(residual, y.to(on), weight(w.to(on)), 1e-6);
    });
    expect_same_bits([&](at::Device on) { return device::silu_mul(gate_up.to(on)); });
    expect_same_bits([&](at::Device on) {
      return device::qk_norm(qkv.to(on), weight(q.to(on)), weight(q.to(on)), dims, 1e-6);
    });
  }
}

TEST(GpuOps, AttentionHasTheBitsOfTheDouble) {
  NEEDS_GPU();
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16})
    for (const AttentionDims dims : {AttentionDims{14, 2, 64}, AttentionDims{6, 1, 128}}) {
      ForwardBatch batch;
      const auto append = [&](int32_t position, int32_t length, std::vector<SlotSpan> spans) {
        batch.segments.push_back({static_cast<int32_t>(batch.tokens.size()), length, position, spans});
        for (int32_t i = 0, at = position, span = 0; i < length; ++i, ++at) {
          int32_t offset = at;
          for (span = 0; offset >= spans[static_cast<size_t>(span)].length; ++span)
            offset -= spans[static_cast<size_t>(span)].length;
          batch.slots.push_back(spans[static_cast<size_t>(span)].slot + offset);
          batch.tokens.push_back(0);
          batch.positions.push_back(at);
        }
      };
      append(0, 70, {{32, 48}, {0, 22}});
      append(700, 1, {{100, 600}, {800, 101}});
      append(299, 2, {{1000, 301}});
      const at::Tensor qkv = at::randn({batch.num_rows(), dims.qkv_width()}).to(dtype),
                       rope = at::randn({1024, dims.head_dim}),
                       keys = at::randn({1400, dims.kv_heads, dims.head_dim}).to(dtype),
                       values = at::randn({1400, dims.kv_heads, dims.head_dim}).to(dtype);
      expect_same_bits([&](at::Device on) {
        DeviceBatch parts = upload(batch, static_cast<int32_t>(dims.heads / dims.kv_heads),
                                   {1000, dims.kv_heads * (dims.head_dim + 2)}, on);
        parts.rope = rope.to(on);
        BatchPlan plan;
        plan.device = std::make_shared<const DeviceBatch>(parts);
        LayerKv kv{keys.to(on, dtype, false, true), values.to(on, dtype, false, true)};
        return device::attention_paged(qkv.to(on), dims, plan, kv);
      });
    }
}

TEST(GpuOps, SoftmaxStatisticsAreThoseOfTheDouble) {
  NEEDS_GPU();
  const at::Tensor logits = 5 * at::randn({9, 151936}), inverse = at::rand({9}) + 0.5;
  const at::Tensor on_gpu = device::softmax_stats(logits.cuda(), inverse.cuda()).rows.cpu().view(at::kFloat);
  device::use_double(&gpu_kernels_double());
  const at::Tensor on_host = device::softmax_stats(logits, inverse).rows.view(at::kFloat);
  device::use_double(nullptr);
  EXPECT_LE((on_gpu - on_host).narrow(1, 0, 3).abs().max().item<float>(), 1e-6f);
}

}  // namespace
}  // namespace trireme::models
