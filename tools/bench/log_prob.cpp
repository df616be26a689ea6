// Memory and time of the log-probability of N texts' tokens over a large vocabulary, forward and backward:
//   log_prob_bench ROWS [bf16|fp32] [VOCABULARY] [HIDDEN]
// prints one JSON object; log_prob_memory.py runs it beside full logits in PyTorch. The weights, their packed
// copy, their gradient and the rows are there before the measurement begins.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include "trainer/models/ops.h"
#include "trainer/models/packed_linear.h"

namespace {

namespace models = trireme::models;

// A line of /proc/self/status: "VmHWM" is the most that was resident since it was last reset, "VmRSS" what
// is now.
double resident_mb(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind(field + ":", 0) == 0) return std::atof(line.c_str() + field.size() + 1) / 1e3;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int index, const char* otherwise) {
    return std::atoll(argc > index ? argv[index] : otherwise);
  };
  const int64_t rows = number(1, "512"), vocabulary = number(3, "151936"), hidden = number(4, "896");
  const auto dtype = argc > 2 && std::strcmp(argv[2], "fp32") == 0 ? at::kFloat : at::kBFloat16;
  if (rows < 1 || vocabulary < 1 || hidden < 1) {
    std::fprintf(stderr, "log_prob_bench ROWS [bf16|fp32] [VOCABULARY] [HIDDEN]: numbers from 1 on\n");
    return 2;
  }
  models::Weight head{at::empty({vocabulary, hidden}, dtype).normal_(0, 0.05),
                      at::zeros({vocabulary, hidden}, at::kFloat)};
  head.gradient.fill_(0.0);
  head.packed = models::make_packed(head.value);
  models::pack(head.value, *head.packed);
  const at::Tensor x = at::randn({rows, hidden}, at::kFloat).to(dtype).requires_grad_(true);
  std::vector<int32_t> index(static_cast<size_t>(rows)), tokens;
  std::iota(index.begin(), index.end(), 0);
  for (int64_t i = 0; i < rows; ++i) tokens.push_back(static_cast<int32_t>(i * 7919 % vocabulary));

  std::ofstream("/proc/self/clear_refs") << "5";  // VmHWM begins again from what is resident
  const double before = resident_mb("VmRSS");
  const auto start = std::chrono::steady_clock::now();
  models::token_log_probs(x, head, index, tokens, 1.0, false, models::log_prob_chunk_rows(vocabulary))
      .log_probs_N.sum()
      .backward();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("{\"extra_mb\": %.1f, \"seconds\": %.3f}\n", resident_mb("VmHWM") - before, seconds);
  return 0;
}
