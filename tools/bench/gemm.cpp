// The packed matrix product beside LibTorch's two ways, on this machine, in one run:
//   ninja -C build/cpu gemm_bench && OMP_NUM_THREADS=1 build/cpu/bin/gemm_bench [bf16|fp32|both]
//   [qwen|small|both]
// Each time is the least of many repetitions, taken in turns, so that a busy neighbour hurts all alike.
// Weights go round through copies larger than the last cache where the model itself would (the shape's
// weights exceed it).
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include "trainer/models/instruction_set.h"
#include "trainer/models/packed_gemm.h"
#include "trainer/models/packed_linear.h"
#include "trainer/models/weight_gradient.h"

namespace {

using trireme::models::Element;
using trireme::models::gemm;
using trireme::models::GemmRows;
using trireme::models::PackedMatrix;

double seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Bytes per second of one thread reading memory that no cache holds.
double read_limit() {
  const size_t floats = size_t{1} << 28;
  const at::Tensor memory = at::zeros({static_cast<int64_t>(floats)}, at::kFloat);
  const auto* data = memory.const_data_ptr<float>();
  double best = 1e9;
  volatile float sink = 0;
  for (int i = 0; i < 5; ++i)
    best = std::min(best, seconds([&] {
                      float sum[64] = {};
                      for (size_t j = 0; j < floats; j += 64)
                        for (size_t l = 0; l < 64; ++l) sum[l] += data[j + l];
                      for (const float s : sum) sink = sink + s;
                    }));
  return static_cast<double>(floats) * 4 / best;
}

struct Case {
  const char* name;
  int64_t n, k;
};

// mkldnn::_reorder_linear_weight and mkldnn::_linear_pointwise have no C++ header.
struct Prepacked {
  at::Tensor weight;
  bool failed = false;
  Prepacked(const at::Tensor& plain, int64_t rows) {
    try {
      const auto reorder =
          c10::Dispatcher::singleton().findSchemaOrThrow("mkldnn::_reorder_linear_weight", "");
      torch::jit::Stack stack{plain, c10::optional<int64_t>(rows)};
      reorder.callBoxed(stack);
      weight = stack[0].toTensor();
    } catch (const std::exception& e) {
      failed = true;
    }
  }
  at::Tensor operator()(const at::Tensor& x) const {
    static const auto linear =
        c10::Dispatcher::singleton().findSchemaOrThrow("mkldnn::_linear_pointwise", "");
    torch::jit::Stack stack{
        x, weight, c10::IValue(), c10::IValue("none"), c10::List<c10::optional<at::Scalar>>(), c10::IValue()};
    linear.callBoxed(stack);
    return stack[0].toTensor();
  }
};

void compare(const Case& shape, at::ScalarType dtype, int64_t rows, int copies) {
  const at::Tensor x = at::randn({rows, shape.k}, at::kFloat).to(dtype);
  const Element element = dtype == at::kFloat ? Element::f32 : Element::bf16;
  std::vector<at::Tensor> plain;
  std::vector<PackedMatrix> packed;
  std::vector<Prepacked> prepacked;
  for (int i = 0; i < copies; ++i) {
    plain.push_back(at::randn({shape.n, shape.k}, at::kFloat).to(dtype));
    packed.emplace_back(element, shape.n, shape.k)
        .pack(plain[static_cast<size_t>(i)].const_data_ptr(), shape.k, 0, packed.back().num_panels());
    prepacked.emplace_back(plain.back(), rows);
  }
  const at::Tensor out = at::empty({rows, shape.n}, x.options());
  double best[3] = {1e9, 1e9, 1e9};
  const double flops = 2.0 * static_cast<double>(rows * shape.n * shape.k);
  const int repeats = std::max(2 * copies, static_cast<int>(std::min(100.0, 6e10 / flops)));
  const auto turn = [&](int way, const std::function<void(size_t)>& work) {
    for (int i = 0; i < repeats; ++i)
      best[way] = std::min(best[way], seconds([&] { work(static_cast<size_t>(i % copies)); }));
  };
  for (int round = 0; round < 3; ++round) {
    turn(0, [&](size_t c) {
      gemm(packed[c], {x.const_data_ptr(), shape.k, rows, nullptr, out.mutable_data_ptr(), shape.n, element},
           0, packed[c].num_panels());
    });
    turn(1, [&](size_t c) { at::linear(x, plain[c]); });
    if (!prepacked[0].failed) turn(2, [&](size_t c) { prepacked[c](x); });
  }
  const double bytes = static_cast<double>(shape.n * shape.k) * static_cast<double>(x.element_size());
  std::printf(
      "%-8s %6ld x %-6ld M %-5ld ours %9.1f us  %7.0f GFLOP/s %5.1f GB/s   at::linear %5.2fx  oneDNN packed "
      "%5.2fx\n",
      shape.name, shape.n, shape.k, rows, best[0] * 1e6, flops / best[0] / 1e9, bytes / best[0] / 1e9,
      best[1] / best[0], best[2] / best[0]);
  std::fflush(stdout);
}

// What the backward pass costs there: grad_x = grad_y W, and grad_W = grad_y^T x.
void backward(const Case& shape, at::ScalarType dtype, int64_t rows) {
  const at::Tensor x = at::randn({rows, shape.k}, at::kFloat).to(dtype),
                   grad = at::randn({rows, shape.n}, at::kFloat).to(dtype),
                   weight = at::randn({shape.n, shape.k}, at::kFloat).to(dtype),
                   sum = at::zeros({shape.n, shape.k}, at::kFloat);
  double best[4] = {1e9, 1e9, 1e9, 1e9};
  for (int i = 0; i < 6; ++i) {
    best[0] = std::min(best[0], seconds([&] { at::mm(grad, weight); }));
    best[1] =
        std::min(best[1], seconds([&] { trireme::models::packed_grad_x(grad, weight, grad.scalar_type()); }));
    best[2] = std::min(best[2], seconds([&] {
                         if (dtype == at::kFloat)
                           sum.addmm_(grad.t(), x);
                         else
                           sum.add_(at::mm(grad.t(), x));
                       }));
    best[3] = std::min(best[3], seconds([&] { trireme::models::add_weight_gradient(grad, x, sum); }));
  }
  const double flops = 2.0 * static_cast<double>(rows * shape.n * shape.k);
  std::printf(
      "%-8s backward M %ld: grad_x ours %5.0f GFLOP/s, at::mm %5.2fx; grad_W ours %5.0f GFLOP/s, at::mm "
      "%5.2fx\n",
      shape.name, rows, flops / best[1] / 1e9, best[0] / best[1], flops / best[3] / 1e9, best[2] / best[3]);
}

}  // namespace

int main(int argc, char** argv) {
  const at::NoGradGuard no_gradients;
  const std::string kind = argc > 1 ? argv[1] : "both", model = argc > 2 ? argv[2] : "both";
  const int64_t only_rows = argc > 3 ? std::atoll(argv[3]) : 0;
  std::printf("kernels: %s; memory read %.1f GB/s\n",
              trireme::models::name_of(trireme::models::instruction_set()), read_limit() / 1e9);
  const std::vector<Case> qwen{{"qkv", 1152, 896},
                               {"o", 896, 896},
                               {"gate_up", 9728, 896},
                               {"down", 896, 4864},
                               {"head", 151936, 896}};
  const std::vector<Case> small{
      {"qkv", 768, 512}, {"o", 512, 512}, {"gate_up", 2816, 512}, {"down", 512, 1408}, {"head", 4096, 512}};
  for (const at::ScalarType dtype : {at::kBFloat16, at::kFloat}) {
    if (kind != "both" && (kind == "bf16") != (dtype == at::kBFloat16)) continue;
    for (const bool large : {false, true}) {
      if (model != "both" && (model == "qwen") != large) continue;
      std::printf("-- %s, %s\n", dtype == at::kFloat ? "fp32" : "bf16", large ? "Qwen2.5-0.5B" : "25M");
      for (const Case& shape : large ? qwen : small) {
        for (const int64_t rows : {1, 4, 16, 64, 256, 2048}) {
          if (only_rows && rows != only_rows) continue;
          if (rows == 2048 && shape.n > 100000) continue;
          const int64_t bytes = shape.n * shape.k * (dtype == at::kFloat ? 4 : 2);
          compare(shape, dtype, rows,
                  large ? static_cast<int>(std::max<int64_t>(1, (256 << 20) / bytes)) : 4);
        }
        if (shape.n < 100000 && (!only_rows || only_rows == 2048)) backward(shape, dtype, 2048);
      }
    }
  }
  return 0;
}
