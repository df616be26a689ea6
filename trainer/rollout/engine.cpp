#include "trainer/rollout/engine.h"

#include <ATen/DeviceAccelerator.h>

#include <algorithm>
#include <utility>

#include "runtime/base/error.h"
#include "trainer/rollout/gpu_step_runner.h"
#include "trainer/rollout/scheduler.h"
#include "trainer/rollout/step_runner.h"

namespace trireme::rollout {
namespace {

StepLimits limits_of(const RolloutConfig& config, const KvBudget& budget) {
  return {budget.tokens(), budget.max_model_len, config.max_num_seqs, config.max_num_batched_tokens};
}

costs::DeviceMemory memory_of(const models::Decoder& decoder, const StepLimits& limits,
                              int64_t ranks_on_host) {
  const at::Device device = decoder.device();
  if (device.is_cpu()) return costs::host_memory(ranks_on_host);
  const auto [free, total] = at::accelerator::getMemoryInfo(device.has_index() ? device.index() : 0);
  return {static_cast<int64_t>(total),
          static_cast<int64_t>(total - free) + gpu_step_bytes(decoder, limits).total()};
}

// Ranks that compute a replica together must plan the same steps.
KvBudget agreed(KvBudget budget, const models::TensorParallel& tp) {
  if (!tp.is_split()) return budget;
  auto pages = static_cast<double>(budget.pages);
  pages = tp.group->all_reduce_scalar(pages, comm::ReduceOp::min);
  if (budget.pages > 0) budget.bytes = budget.bytes / budget.pages * static_cast<int64_t>(pages);
  budget.pages = static_cast<int64_t>(pages);
  return budget;
}

// The cache's memory is there as long as this is; null: always.
class CacheForNow {
 public:
  explicit CacheForNow(StepRunner* runner) : runner_(runner) {
    if (runner_) runner_->take_cache();
  }
  ~CacheForNow() {
    if (runner_) runner_->give_cache_back();
  }
  CacheForNow(const CacheForNow&) = delete;
  CacheForNow& operator=(const CacheForNow&) = delete;

 private:
  StepRunner* runner_;
};

}  // namespace

Engine::Engine(const models::Decoder& decoder, const RolloutConfig& config,
               const std::vector<int32_t>& stop_ids, int64_t max_model_len, int64_t ranks_on_host)
    : decoder_(decoder),
      config_(config),
      kv_budget_(
          agreed(costs::plan_kv_cache(
                     config, max_model_len, decoder.kv_bytes_per_slot(),
                     memory_of(decoder, limits_of(config, {.max_model_len = max_model_len}), ranks_on_host)),
                 decoder.tensor_parallel())),
      stop_condition_(stop_ids, decoder.shape().vocab_size),
      runner_(make_step_runner(decoder, limits_of(config, kv_budget_))) {
  if (config.free_cache_engine) runner_->give_cache_back();
}

Engine::~Engine() = default;

std::vector<Completion> Engine::generate(std::vector<Request> requests, const OnFinished& on_finished) {
  check(requests);
  std::vector<Completion> completions;
  const CacheForNow cache(config_.free_cache_engine ? runner_.get() : nullptr);
  Scheduler scheduler(config_, kv_budget_.pages, requests, stop_condition_, completions);
  while (!scheduler.is_done()) {
    const StepPlan& plan = scheduler.schedule();
    const std::span<const SampledToken> drawn = runner_->run(plan, scheduler);
    scheduler.retire(drawn, on_finished);
    stats_.generated_tokens += static_cast<int64_t>(drawn.size());
    if (forward_is_done_) forward_is_done_();
  }
  add_to_stats(scheduler);
  return completions;
}

void Engine::add_to_stats(const Scheduler& scheduler) {
  const SchedulerStats& made = scheduler.stats();
  stats_.prompt_tokens += made.prompt_tokens;
  stats_.cached_prompt_tokens += made.cached_prompt_tokens;
  stats_.recomputed_tokens += made.recomputed_tokens;
  stats_.preemptions += made.preemptions;
  stats_.steps += made.steps;
  stats_.running_sum += made.running_sum;
  stats_.waiting_sum += made.waiting_sum;
  stats_.peak_running = std::max(stats_.peak_running, made.peak_running);
  stats_.peak_waiting = std::max(stats_.peak_waiting, made.peak_waiting);
  stats_.peak_pages = std::max(stats_.peak_pages, scheduler.pages().peak_used());
}

EngineStats Engine::take_stats() {
  EngineStats stats = std::exchange(stats_, EngineStats{});
  stats.total_pages = kv_budget_.pages;
  return stats;
}

void Engine::check(const std::vector<Request>& requests) const {
  Mistakes mistakes;
  const int64_t vocab_size = decoder_.shape().vocab_size;
  for (const Request& r : requests) {
    const auto add = [&](std::string what) {
      mistakes.add(fmt::format("request {}", r.id), std::move(what));
    };
    const auto prompt_length = static_cast<int64_t>(r.prompt.size());
    if (r.prompt.empty()) add("has an empty prompt");
    if (r.n < 1) add(fmt::format("asks for n = {} samples, must be at least 1", r.n));
    if (r.max_new_tokens < 1)
      add(fmt::format("has max_new_tokens = {}, must be at least 1", r.max_new_tokens));
    if (!(r.sampling.temperature >= 0)) {
      add(fmt::format("has temperature {}, must be 0 (greedy) or more", r.sampling.temperature));
    }
    if (!(r.sampling.top_p > 0 && r.sampling.top_p <= 1)) {
      add(fmt::format("has top_p {}, must be above 0 and at most 1", r.sampling.top_p));
    }
    if (!(r.sampling.min_p >= 0 && r.sampling.min_p <= 1)) {
      add(fmt::format("has min_p {}, must be between 0 and 1", r.sampling.min_p));
    }
    for (const std::string& text : r.sampling.stop) {
      if (text.empty()) add("has an empty stop string");
    }
    if (!r.sampling.stop.empty() && !stop_condition_.has_token_text()) {
      add("has stop strings, but this engine does not know its tokens' text");
    }
    const auto outside =
        std::find_if(r.prompt.begin(), r.prompt.end(), [&](int32_t t) { return t < 0 || t >= vocab_size; });
    if (outside != r.prompt.end()) {
      add(fmt::format("has token {}, outside the vocabulary of {}", *outside, vocab_size));
    }
    if (prompt_length + r.max_new_tokens > kv_budget_.max_model_len) {
      add(fmt::format("may grow to {} + {} tokens, but max_model_len is {}", prompt_length, r.max_new_tokens,
                      kv_budget_.max_model_len));
    }
  }
  mistakes.throw_if_any("the rollout engine cannot serve these requests");
}

}  // namespace trireme::rollout
