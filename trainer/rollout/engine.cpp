#include "trainer/rollout/engine.h"

#include <ATen/DeviceAccelerator.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <utility>

#include "runtime/base/error.h"
#include "trainer/rollout/philox.h"
#include "trainer/rollout/scheduler.h"

namespace trireme::rollout {
namespace {

// Logits that exist at one time: 64 MiB of fp32.
constexpr int64_t kMaxLogits = 16 << 20;
// Logits that are worth a thread of their own.
constexpr int64_t kLogitsPerThread = 64 << 10;

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

DeviceMemory memory_of(at::Device device, int64_t ranks_on_host) {
  if (device.is_cpu()) return host_memory(ranks_on_host);
  const auto [free, total] = at::accelerator::getMemoryInfo(device.has_index() ? device.index() : 0);
  return {static_cast<int64_t>(total), static_cast<int64_t>(total - free)};
}

}  // namespace

Engine::Engine(const models::Decoder& decoder, const RolloutConfig& config,
               const std::vector<int32_t>& stop_ids, int64_t max_model_len, int64_t ranks_on_host)
    : decoder_(decoder),
      config_(config),
      kv_budget_(plan_kv_cache(config, max_model_len, decoder.kv_bytes_per_slot(),
                               memory_of(decoder.device(), ranks_on_host))),
      stop_condition_(stop_ids, decoder.shape().vocab_size),
      kv_(decoder.make_kv_slots(kv_budget_.tokens())) {}

std::vector<Completion> Engine::generate(std::vector<Request> requests,
                                         const std::function<void(const Completion&)>& on_finished) {
  check(requests);
  samplers_.resize(at::get_num_threads(), Sampler(decoder_.shape().vocab_size));
  std::vector<Completion> completions;
  Scheduler scheduler(config_, kv_budget_.pages, requests, stop_condition_, completions);
  while (!scheduler.is_done()) {
    const StepPlan& plan = scheduler.schedule();
    const at::Tensor hidden_TD = decoder_.forward_paged(plan.batch, kv_);
    sample(plan, hidden_TD, scheduler);
    scheduler.retire(drawn_, on_finished);
    stats_.generated_tokens += static_cast<int64_t>(drawn_.size());
  }
  add_to_stats(scheduler);
  return completions;
}

void Engine::sample(const StepPlan& plan, const at::Tensor& hidden_TD, const Scheduler& scheduler) {
  drawn_.resize(plan.num_draws);
  const std::span<const SampledRow> sampled_rows = plan.sampled_rows;
  const int64_t vocab_size = decoder_.shape().vocab_size;
  const size_t rows_at_once = std::max<int64_t>(1, kMaxLogits / vocab_size);
  for (size_t start = 0; start < sampled_rows.size(); start += rows_at_once) {
    const auto rows = sampled_rows.subspan(start, std::min(rows_at_once, sampled_rows.size() - start));
    logit_rows_.clear();
    for (const SampledRow& row : rows) logit_rows_.push_back(row.row);
    // On a GPU the rows come to the host and are sampled here; a kernel can take this place.
    const at::Tensor logits_NV = decoder_.logits(hidden_TD, logit_rows_).cpu().contiguous();
    float* logits = logits_NV.mutable_data_ptr<float>();
    const auto num_rows = static_cast<int64_t>(rows.size());
    at::parallel_for(0, num_rows, ceil_div(kLogitsPerThread, vocab_size), [&](int64_t begin, int64_t end) {
      Sampler& sampler = samplers_.at(at::get_thread_num());
      for (int64_t i = begin; i < end; ++i) sample_row(logits + i * vocab_size, rows[i], scheduler, sampler);
    });
  }
}

void Engine::sample_row(float* logits_V, const SampledRow& row, const Scheduler& scheduler,
                        Sampler& sampler) {
  const Request& request = scheduler.request_of(row.sequence);
  const int64_t position = scheduler.num_sampled(row.sequence);
  if (!sampler.load(logits_V, request.sampling, request.greedy)) {
    fail(ErrorCode::internal,
         "the decoder's logits are not numbers (request {}, response token {}): the weights have diverged or "
         "their checkpoint is damaged",
         request.id, position);
  }
  const PhiloxKey key = sampling_key(request.seed, request.step);
  for (int32_t i = 0; i < row.num_draws; ++i) {
    const int32_t sample = scheduler.sample_of(row.sequence + i);
    drawn_[row.first_draw + i] = sampler.draw(sampling_uniform(key, request.id, sample, position));
  }
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
