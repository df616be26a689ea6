// Steps on a GPU. The host lays a plan out as one block of words, copies it, and starts the work; tokens,
// log-probabilities and entropies are all that comes back.
//
// A step of decode, where every row is one sequence's and is drawn from once, is captured as a graph for a
// ladder of row counts, at the first such step; a step of fewer rows is padded with rows that write to a
// spare slot and are drawn from in vain. Steps with prompts in them are enqueued call by call. Both run the
// same kernels.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "trainer/rollout/draw_kernel.h"
#include "trainer/rollout/step_graphs.h"
#include "trainer/rollout/step_runner.h"

namespace trireme::rollout {

/// 1, 2, 4, 8, 16, then every 16 up to max_num_seqs, that included.
std::vector<int64_t> graph_ladder(int64_t max_num_seqs);

/// What steps hold on the device beside the pages of the cache, bytes.
struct GpuStepBytes {
  int64_t buffers = 0;      // what captured steps read, and attention's partial results
  int64_t activations = 0;  // at most, of the largest step: a layer's tensors, logits and their statistics
  int64_t total() const { return buffers + activations; }
};
GpuStepBytes gpu_step_bytes(const models::Decoder& decoder, const StepLimits& limits);

/// The inputs of N rows and M draws in one block of bytes, and what is drawn; both on the device.
struct DrawBlock {
  int64_t rows, draws;
  at::Tensor inputs;  // settings [N], uniforms [M], inverse temperatures [N]
  at::Tensor drawn;   // SampledToken [M]
};

class GpuStepRunner : public StepRunner {
 public:
  /// `graphs` may be null: then nothing is captured. The decoder's rows must be computed by
  /// models/device_ops.h.
  GpuStepRunner(const models::Decoder& decoder, const StepLimits& limits, DrawKernel draw,
                std::unique_ptr<StepGraphs> graphs);

  std::span<const SampledToken> run(const StepPlan& plan, const Scheduler& scheduler) override;
  /// Where the memory is another one than before, steps are captured anew.
  void take_cache() override;
  void give_cache_back() override;

  /// Steps that graphs computed, so far.
  int64_t num_replays() const { return num_replays_; }
  /// Of gpu_step_bytes(), as they are.
  int64_t buffer_bytes() const;

 private:
  void capture_ladder();
  void enqueue_decode(int64_t rows);
  /// False where the plan is no step of decode, or its spans are more than there is room for.
  bool replay(const StepPlan& plan, const Scheduler& scheduler);
  void run_call_by_call(const StepPlan& plan, const Scheduler& scheduler);
  /// Draws from the logits of each row of `hidden`; enqueues only.
  void draw(const at::Tensor& hidden_ND, const DrawBlock& block) const;
  void fetch(const at::Tensor& drawn, const StepPlan& plan, const Scheduler& scheduler);

  const models::Decoder& decoder_;
  const int64_t spare_slot_;
  const int32_t group_;
  const DrawKernel draw_;
  const std::unique_ptr<StepGraphs> graphs_;
  const std::vector<int64_t> ladder_;  // ascending
  bool captured_ = false;
  const void* captured_cache_ = nullptr;  // the memory that graphs read and write
  int64_t num_replays_ = 0;

  models::KvSlots kv_;
  at::Tensor rope_, partials_;  // of captured steps
  int64_t partial_rows_ = 0, most_items_ = 0;
  // What captured work reads, on the device, and where the host lays it out. int32 and bytes.
  at::Tensor words_, host_words_, draws_, host_draws_;
  at::Tensor drawn_;
  std::vector<SampledToken> result_;
};

}  // namespace trireme::rollout
