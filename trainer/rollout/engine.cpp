#include "trainer/rollout/engine.h"

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

void check_config(const RolloutConfig& config, int64_t max_model_len) {
  Mistakes mistakes;
  const auto at_least_one = [&](const char* key, int64_t value) {
    if (value < 1) mistakes.add(key, fmt::format("is {}, must be at least 1", value));
  };
  at_least_one("rollout.max_num_seqs", config.max_num_seqs);
  at_least_one("rollout.max_num_batched_tokens", config.max_num_batched_tokens);
  at_least_one("rollout.page_size", config.page_size);
  at_least_one("max_model_len", max_model_len);
  if (config.kv_cache_tokens < 0) {
    mistakes.add("rollout.kv_cache_tokens",
                 fmt::format("is {}, must be 0 (as many as needed) or more", config.kv_cache_tokens));
  }
  mistakes.throw_if_any("the rollout engine cannot work with these settings");
}

int64_t pages_of(const RolloutConfig& config, int64_t max_model_len) {
  check_config(config, max_model_len);
  // Samples that share a prompt start on a page of their own: one partly filled page more each.
  const int64_t per_sequence = ceil_div(max_model_len, config.page_size) + 1;
  const int64_t pages = config.kv_cache_tokens > 0 ? ceil_div(config.kv_cache_tokens, config.page_size)
                                                   : config.max_num_seqs * per_sequence;
  if (pages > INT32_MAX / config.page_size) {
    fail(ErrorCode::invalid_config,
         "the KV cache would hold {} pages of {} tokens, more than 2^31 tokens: "
         "lower rollout.max_num_seqs or set rollout.kv_cache_tokens",
         pages, config.page_size);
  }
  return pages;
}

std::vector<bool> flags_of(const std::vector<int32_t>& tokens, int64_t vocab_size) {
  std::vector<bool> flags(vocab_size, false);
  for (const int32_t token : tokens) {
    if (token >= 0 && token < vocab_size) flags[token] = true;  // others can never be drawn
  }
  return flags;
}

}  // namespace

Engine::Engine(const models::Decoder& decoder, const RolloutConfig& config, std::vector<int32_t> stop_ids,
               int64_t max_model_len)
    : decoder_(decoder),
      config_(config),
      max_model_len_(max_model_len),
      num_pages_(pages_of(config, max_model_len)),
      stop_tokens_(flags_of(stop_ids, decoder.shape().vocab_size)),
      kv_(decoder.make_kv_slots(num_pages_ * config.page_size)) {}

std::vector<Completion> Engine::generate(std::vector<Request> requests,
                                         const std::function<void(const Completion&)>& on_finished) {
  check(requests);
  samplers_.resize(at::get_num_threads(), Sampler(decoder_.shape().vocab_size));
  std::vector<Completion> completions;
  Scheduler scheduler(config_, num_pages_, requests, stop_tokens_, completions);
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
  stats.total_pages = num_pages_;
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
    const auto outside =
        std::find_if(r.prompt.begin(), r.prompt.end(), [&](int32_t t) { return t < 0 || t >= vocab_size; });
    if (outside != r.prompt.end()) {
      add(fmt::format("has token {}, outside the vocabulary of {}", *outside, vocab_size));
    }
    if (prompt_length + r.max_new_tokens > max_model_len_) {
      add(fmt::format("may grow to {} + {} tokens, but max_model_len is {}", prompt_length, r.max_new_tokens,
                      max_model_len_));
    }
    // The last token's key and value are never needed.
    const int64_t cached = prompt_length + r.max_new_tokens - 1;
    if (ceil_div(cached, config_.page_size) > num_pages_) {
      add(fmt::format(
          "may need {} tokens in the KV cache, but it holds {}: raise rollout.kv_cache_tokens to at "
          "least {}",
          cached, num_pages_ * config_.page_size, cached));
    }
  }
  mistakes.throw_if_any("the rollout engine cannot serve these requests");
}

}  // namespace trireme::rollout
