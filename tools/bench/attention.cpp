// Attention and row kernels, on this machine, in one run:
//   ninja -C build/cpu attention_bench && OMP_NUM_THREADS=1 build/cpu/bin/attention_bench [decode|train|rows]
// Decode is beside a plain read of the same keys and values, and LibTorch's kernel on keys that lie already
// gathered and repeated for every head; training beside LibTorch's kernel, likewise repeated; rows beside a
// copy of what they read. Each time is the least of many repetitions, taken in turns, so that a busy
// neighbour hurts all alike. One thread.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "trainer/models/attention_runs.h"
#include "trainer/models/cpu_kernels.h"
#include "trainer/models/slot_span.h"

namespace {

using namespace trireme::models;
using Work = std::function<void()>;

struct Shape {
  int32_t heads, kv_heads, head_dim;
};

Element element_of(const at::Tensor& x) {
  return x.scalar_type() == at::kFloat ? Element::f32 : Element::bf16;
}
const char* name_of(at::ScalarType dtype) {
  return dtype == at::kFloat ? "fp32" : "bf16";
}

at::Tensor random(at::IntArrayRef sizes, at::ScalarType dtype) {
  return at::randn(sizes, at::kFloat).to(dtype);
}

// The least microseconds of each, in turns for about half a second.
std::vector<double> times(const std::vector<Work>& ways) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> best(ways.size(), 1e30);
  const auto start = Clock::now();
  for (int round = 0; round < 3 || Clock::now() - start < std::chrono::milliseconds(500); ++round)
    for (size_t i = 0; i < ways.size(); ++i) {
      const auto begin = Clock::now();
      ways[i]();
      best[i] = std::min(best[i], std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
    }
  return best;
}

void read_all(const at::Tensor& x) {
  const auto* words = static_cast<const uint64_t*>(x.const_data_ptr());
  uint64_t sum[16] = {};
  for (size_t i = 0; i + 16 <= x.nbytes() / 8; i += 16)
    for (size_t l = 0; l < 16; ++l) sum[l] += words[i + l];
  volatile uint64_t sink = std::accumulate(sum, sum + 16, uint64_t{0});
  (void)sink;
}

// One row for each of `batch` histories; every eight begin with the same `shared` positions. Pages of 16
// that lie anywhere; eight layers, as a model has.
void decode(Shape shape, at::ScalarType dtype, int batch, int context, int shared) {
  constexpr int kLayers = 8, kPage = 16;
  const auto [heads, kv_heads, head_dim] = shape;
  std::vector<int32_t> places(static_cast<size_t>(batch * context / kPage));
  std::iota(places.begin(), places.end(), 0);
  std::shuffle(places.begin(), places.end(), std::mt19937(1));
  std::vector<std::vector<SlotSpan>> spans(static_cast<size_t>(batch));
  std::vector<SegmentView> views;
  for (int b = 0; b < batch; ++b) {
    auto& own = spans[static_cast<size_t>(b)];
    for (int p = 0; p < context / kPage; ++p) {
      const int owner = p * kPage < shared ? b / 8 * 8 : b;
      own.push_back({places[static_cast<size_t>(owner * context / kPage + p)] * kPage, kPage});
    }
    views.push_back({b, 1, context - 1, own.data(), static_cast<int32_t>(own.size())});
  }
  std::vector<at::Tensor> keys, values, gathered_keys, gathered_values;
  for (int l = 0; l < kLayers; ++l) {
    keys.push_back(random({batch * context, kv_heads, head_dim}, dtype));
    values.push_back(random({batch * context, kv_heads, head_dim}, dtype));
    gathered_keys.push_back(random({batch, heads, context, head_dim}, dtype));
    gathered_values.push_back(random({batch, heads, context, head_dim}, dtype));
  }
  const at::Tensor q = random({batch, heads, head_dim}, dtype), out = at::empty_like(q);
  const auto result = times({
      [&] {
        for (size_t l = 0; l < kLayers; ++l) {
          AttentionForward task{};
          task.shape = {heads, kv_heads, head_dim};
          task.element = element_of(q);
          task.q = q.const_data_ptr();
          task.q_stride = heads * head_dim;
          task.keys = keys[l].const_data_ptr();
          task.values = values[l].const_data_ptr();
          task.kv_stride = kv_heads * head_dim;
          task.out = out.mutable_data_ptr();
          for (const SegmentRun& run : shared_runs(views, batch))
            for (int32_t head = 0; head < kv_heads; ++head)
              cpu_kernels().attention_forward(task, &views[static_cast<size_t>(run.first)], run.count,
                                              run.shared, head);
        }
      },
      [&] {
        for (size_t l = 0; l < kLayers; ++l) {
          read_all(keys[l]);
          read_all(values[l]);
        }
      },
      [&] {
        for (size_t l = 0; l < kLayers; ++l)
          at::_scaled_dot_product_flash_attention_for_cpu(q.unsqueeze(2), gathered_keys[l],
                                                          gathered_values[l]);
      },
  });
  const double bytes = 2.0 * kLayers * static_cast<double>(keys[0].nbytes());
  std::printf(
      "decode %2d/%d/%-3d %s batch %-3d context %d, %3d shared: %8.0f us  %5.1f GB/s   plain read %4.2fx  "
      "LibTorch gathered %5.2fx\n",
      heads, kv_heads, head_dim, name_of(dtype), batch, context, shared, result[0], bytes / result[0] / 1e3,
      result[1] / result[0], result[2] / result[0]);
  std::fflush(stdout);
}

void train(Shape shape, at::ScalarType dtype, int length) {
  const auto [heads, kv_heads, head_dim] = shape;
  const at::Tensor qkv = random({length, (heads + 2 * kv_heads) * head_dim}, dtype),
                   grad = random({length, heads, head_dim}, dtype), out = at::empty_like(grad),
                   lse = at::empty({length, heads}, at::kFloat),
                   grad_q = at::empty({length, heads, head_dim}, at::kFloat),
                   grad_keys = at::zeros({length, kv_heads, head_dim}, at::kFloat),
                   grad_values = at::zeros_like(grad_keys);
  const SlotSpan span{0, length};
  const SegmentView segment{0, length, 0, &span, 1};
  AttentionForward task{};
  task.shape = {heads, kv_heads, head_dim};
  task.element = element_of(qkv);
  const auto at_column = [&](int64_t column) {
    return static_cast<const char*>(qkv.const_data_ptr()) + column * qkv.element_size();
  };
  task.q = at_column(0);
  task.keys = at_column(heads * head_dim);
  task.values = at_column((heads + kv_heads) * head_dim);
  task.q_stride = task.kv_stride = qkv.stride(0);
  task.out = out.mutable_data_ptr();
  task.lse = lse.mutable_data_ptr<float>();
  AttentionBackward back{};
  back.forward = task;
  back.grad_out = grad.const_data_ptr();
  back.grad_q = grad_q.mutable_data_ptr<float>();
  back.grad_keys = grad_keys.mutable_data_ptr<float>();
  back.grad_values = grad_values.mutable_data_ptr<float>();

  const at::Tensor q = random({1, heads, length, head_dim}, dtype), k = random(q.sizes(), dtype),
                   v = random(q.sizes(), dtype), their_grad = random(q.sizes(), dtype);
  auto [their_out, their_lse] = at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, true);
  const auto result = times({
      [&] {
        for (int32_t head = 0; head < kv_heads; ++head)
          cpu_kernels().attention_forward(task, &segment, 1, 0, head);
      },
      [&] { at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, true); },
      [&] {
        for (int32_t head = 0; head < kv_heads; ++head) cpu_kernels().attention_backward(back, segment, head);
      },
      [&] {
        at::_scaled_dot_product_flash_attention_for_cpu_backward(their_grad, q, k, v, their_out, their_lse,
                                                                 0.0, true);
      },
  });
  const double forward_flops = 2.0 * heads * head_dim * length * (length + 1.0);
  std::printf(
      "train  %2d/%d/%-3d %s length %-5d forward %9.0f us %4.0f GFLOP/s  LibTorch %5.2fx   backward %9.0f us "
      "%4.0f GFLOP/s  LibTorch %5.2fx\n",
      heads, kv_heads, head_dim, name_of(dtype), length, result[0], forward_flops / result[0] / 1e3,
      result[1] / result[0], result[2], 2.5 * forward_flops / result[2] / 1e3, result[3] / result[2]);
  std::fflush(stdout);
}

void rows(at::ScalarType dtype, int64_t count, int64_t dim) {
  const int64_t wide = dim * 11 / 4;
  const at::Tensor x = random({count, dim}, dtype), weight = random({dim}, dtype), out = at::empty_like(x),
                   gate_up = random({count, 2 * wide}, dtype), grad_gate_up = at::empty_like(gate_up),
                   product = at::empty({count, wide}, x.options()), inverse = at::empty({count}, at::kFloat),
                   grad_weight = at::zeros({dim}, at::kFloat);
  const auto copy = [](const at::Tensor& from, const at::Tensor& to) {
    std::memcpy(to.mutable_data_ptr(), from.const_data_ptr(), from.nbytes());
  };
  const Element element = element_of(x);
  const CpuKernels& kernels = cpu_kernels();
  const auto t = times({
      [&] { copy(x, out); },
      [&] {
        kernels.rms_norm(element, x.const_data_ptr(), weight.const_data_ptr(), 1e-6f, count, dim,
                         out.mutable_data_ptr(), inverse.mutable_data_ptr<float>());
      },
      [&] {
        kernels.rms_norm_backward(element, x.const_data_ptr(), weight.const_data_ptr(),
                                  inverse.const_data_ptr<float>(), x.const_data_ptr(), count, dim,
                                  out.mutable_data_ptr(), grad_weight.mutable_data_ptr<float>());
      },
      [&] { copy(gate_up, grad_gate_up); },
      [&] { kernels.silu_mul(element, gate_up.const_data_ptr(), count, wide, product.mutable_data_ptr()); },
      [&] {
        kernels.silu_mul_backward(element, gate_up.const_data_ptr(), product.const_data_ptr(), count, wide,
                                  grad_gate_up.mutable_data_ptr());
      },
  });
  std::printf(
      "rows   %s %4ld x %ld: copy %6.1f us  rms_norm %6.1f  backward %6.1f   %ld wide: copy %7.1f  silu_mul "
      "%7.1f  backward %7.1f\n",
      name_of(dtype), count, dim, t[0], t[1], t[2], 2 * wide, t[3], t[4], t[5]);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const at::NoGradGuard no_gradients;
  const std::string what = argc > 1 ? argv[1] : "";
  std::printf("kernels: %s\n", cpu_kernels().name);
  for (const at::ScalarType dtype : {at::kBFloat16, at::kFloat}) {
    if (what.empty() || what == "decode")
      for (const Shape shape : {Shape{8, 2, 64}, Shape{14, 2, 64}, Shape{12, 2, 128}})
        for (const int batch : {1, 16, 64})
          for (const int shared : {0, 128})
            if (batch > 1 || shared == 0) decode(shape, dtype, batch, 256, shared);
    if (what.empty() || what == "train")
      for (const Shape shape : {Shape{8, 2, 64}, Shape{14, 2, 64}})
        for (const int length : {256, 512, 2048}) train(shape, dtype, length);
    if (what.empty() || what == "rows")
      for (const int64_t count : {64, 2048})
        for (const int64_t dim : {512, 896}) rows(dtype, count, dim);
  }
}
