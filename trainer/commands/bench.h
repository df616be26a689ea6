// What the benchmarks of generation and training have in common.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <c10/core/ScalarType.h>
#include <nlohmann/json.hpp>

#include "runtime/plan/rank_env.h"
#include "trainer/memory/offload_config.h"
#include "trainer/models/decoder_shape.h"

namespace trireme::commands {

struct BenchOptions {
  models::DecoderShape shape;
  at::ScalarType dtype = at::kBFloat16;
  int64_t batch = 0, context = 0, new_tokens = 0, repeats = 0;
  // Of a training step.
  bool recompute = false, exact = false;
  bool ring = false;
  bool observe = false;  // a line for `trireme plan` instead of figures
  bool memory = false;   // freed memory goes back at once, at the price of time
  memory::RoleOffload offload;
  bool offload_activations = false;
  std::string offload_dir;
  int64_t tp = 1, pp = 1, cp = 1, zero_stage = 0, micro_batches = 1;
};

/// On as many ranks as `env` says; the figures are the same on all of them. Collective over: all ranks.
nlohmann::ordered_json bench_train_step(const BenchOptions& options, const plan::RankEnv& env);

double seconds_of(const std::function<void()>& work);
double median(std::vector<double> values);
std::vector<int32_t> random_tokens(int64_t count, int64_t vocab, uint64_t key);
/// Multiplications and additions for one token, without attention.
double flops_of_token(const models::DecoderShape& shape);
/// The most that this process has held resident.
double peak_gb();

}  // namespace trireme::commands
