// Logits rows are sampled where they lie, one thread a row.
#include <ATen/Parallel.h>

#include <algorithm>
#include <vector>

#include "trainer/rollout/philox.h"
#include "trainer/rollout/scheduler.h"
#include "trainer/rollout/step_runner.h"

namespace trireme::rollout {
namespace {

// Logits that exist at one time: 64 MiB of fp32.
constexpr int64_t kMaxLogits = 16 << 20;
// Logits that are worth a thread of their own.
constexpr int64_t kLogitsPerThread = 64 << 10;

class CpuStepRunner : public StepRunner {
 public:
  CpuStepRunner(const models::Decoder& decoder, const StepLimits& limits)
      : decoder_(decoder), kv_(decoder.make_kv_slots(limits.num_slots)) {}

  std::span<const SampledToken> run(const StepPlan& plan, const Scheduler& scheduler) override {
    sample(plan, decoder_.forward_paged(plan.batch, kv_), scheduler);
    return drawn_;
  }

  void take_cache() override { models::take_memory(kv_); }
  void give_cache_back() override { models::give_memory_back(kv_); }

 private:
  void sample(const StepPlan& plan, const at::Tensor& hidden_TD, const Scheduler& scheduler) {
    drawn_.resize(plan.num_draws);
    samplers_.resize(at::get_num_threads(), Sampler(decoder_.vocabulary_pieces()));
    const std::span<const SampledRow> sampled_rows = plan.sampled_rows;
    const int64_t vocab_size = decoder_.shape().vocab_size;
    const size_t rows_at_once = std::max<int64_t>(1, kMaxLogits / vocab_size);
    for (size_t start = 0; start < sampled_rows.size(); start += rows_at_once) {
      const auto rows = sampled_rows.subspan(start, std::min(rows_at_once, sampled_rows.size() - start));
      logit_rows_.clear();
      for (const SampledRow& row : rows) logit_rows_.push_back(row.row);
      const at::Tensor logits_NV = decoder_.logits(hidden_TD, logit_rows_).contiguous();
      float* logits = logits_NV.mutable_data_ptr<float>();
      const auto num_rows = static_cast<int64_t>(rows.size());
      const int64_t grain = (kLogitsPerThread + vocab_size - 1) / vocab_size;
      at::parallel_for(0, num_rows, grain, [&](int64_t begin, int64_t end) {
        Sampler& sampler = samplers_.at(at::get_thread_num());
        for (int64_t i = begin; i < end; ++i)
          sample_row(logits + i * vocab_size, rows[i], scheduler, sampler);
      });
    }
  }

  void sample_row(float* logits_V, const SampledRow& row, const Scheduler& scheduler, Sampler& sampler) {
    const Request& request = scheduler.request_of(row.sequence);
    const int64_t position = scheduler.num_sampled(row.sequence);
    if (!sampler.load(logits_V, request.sampling, request.greedy)) fail_not_numbers(scheduler, row.sequence);
    const PhiloxKey key = sampling_key(request.seed, request.step);
    for (int32_t i = 0; i < row.num_draws; ++i) {
      const int32_t sample = scheduler.sample_of(row.sequence + i);
      drawn_[row.first_draw + i] = sampler.draw(sampling_uniform(key, request.id, sample, position));
    }
  }

  const models::Decoder& decoder_;
  models::KvSlots kv_;
  std::vector<Sampler> samplers_;    // one a thread
  std::vector<int32_t> logit_rows_;  // scratch
  std::vector<SampledToken> drawn_;
};

}  // namespace

std::unique_ptr<StepRunner> make_cpu_step_runner(const models::Decoder& decoder, const StepLimits& limits) {
  return std::make_unique<CpuStepRunner>(decoder, limits);
}

}  // namespace trireme::rollout
