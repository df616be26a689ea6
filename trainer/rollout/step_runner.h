// Computes what the scheduler planned: the forward pass, and a token for every draw. Owns the KV cache's
// memory. One implementation for the CPU, one for GPUs; which tokens are drawn is decided by the request,
// the weights and the rounding of the device, never by how a step is run.
#pragma once

#include <memory>
#include <span>

#include "trainer/models/decoder.h"
#include "trainer/rollout/rollout_config.h"
#include "trainer/rollout/sampler.h"

namespace trireme::rollout {

class Scheduler;
struct StepPlan;

class StepRunner {
 public:
  virtual ~StepRunner() = default;

  /// The plan's draws, in their order; valid until the next call. Throws internal if logits are not numbers.
  virtual std::span<const SampledToken> run(const StepPlan& plan, const Scheduler& scheduler) = 0;

  /// The cache's memory, with nothing in it; there at first. run() needs it.
  virtual void take_cache() = 0;
  virtual void give_cache_back() = 0;
};

/// What a runner makes room for.
struct StepLimits {
  int64_t num_slots = 0;      // of the KV cache
  int64_t max_model_len = 0;  // positions of a sequence
  int64_t max_num_seqs = 0;
  int64_t max_num_batched_tokens = 0;  // rows of one forward; 0: no more than sequences
};

/// For the decoder's device. Borrows the decoder.
std::unique_ptr<StepRunner> make_step_runner(const models::Decoder& decoder, const StepLimits& limits);
std::unique_ptr<StepRunner> make_cpu_step_runner(const models::Decoder& decoder, const StepLimits& limits);

/// The error of a row whose logits are not numbers.
[[noreturn]] void fail_not_numbers(const Scheduler& scheduler, int32_t sequence);

}  // namespace trireme::rollout
