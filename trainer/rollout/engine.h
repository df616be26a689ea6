// Generates responses with a decoder: continuous batching over a paged KV cache.
//
// A response is a function of the weights and its request alone: limits, order and company of requests
// change only the time it takes. Not thread-safe; one engine a rank, kept for the whole run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "trainer/costs/kv_budget.h"
#include "trainer/models/decoder.h"
#include "trainer/rollout/request.h"
#include "trainer/rollout/rollout_config.h"
#include "trainer/rollout/stop_condition.h"

namespace trireme::rollout {

using costs::KvBudget;

class Scheduler;
class StepRunner;

/// Sums since the last take_stats(), but for the peaks and total_pages.
struct EngineStats {
  int64_t prompt_tokens = 0;         // of all samples, each its whole prompt
  int64_t cached_prompt_tokens = 0;  // of these, found in the cache: of another sample or request
  int64_t generated_tokens = 0;
  int64_t recomputed_tokens = 0;  // rows computed again after a preemption
  int64_t preemptions = 0;
  int64_t steps = 0;                          // forwards
  int64_t running_sum = 0, peak_running = 0;  // sequences in the cache, over the forwards
  int64_t waiting_sum = 0, peak_waiting = 0;  // sequences that are not, and not finished
  int64_t peak_pages = 0;                     // the most in use at one time
  int64_t total_pages = 0;
};

class Engine {
 public:
  /// Borrows `decoder`, which must outlive it, and makes the cache (kv_budget.h). `stop_ids`: tokens that end
  /// a response. `ranks_on_host` share the host's memory.
  /// Throws invalid_config naming every setting that is out of range, or that leaves too little room.
  Engine(const models::Decoder& decoder, const RolloutConfig& config, const std::vector<int32_t>& stop_ids,
         int64_t max_model_len, int64_t ranks_on_host = 1);

  /// What tokens are as text, for requests with stop strings.
  void set_token_text(TokenText token_text) { stop_condition_.set_token_text(std::move(token_text)); }

  /// Called after every forward: generation may take long, and somebody may wonder whether it goes on.
  void set_sign_of_life(std::function<void()> forward_is_done) {
    forward_is_done_ = std::move(forward_is_done);
  }

  const RolloutConfig& config() const { return config_; }
  const KvBudget& kv_budget() const { return kv_budget_; }
  /// `wanted`, or what max_model_len leaves behind the request's prompt.
  int64_t max_new_tokens(const Request& request, int64_t wanted) const {
    return std::min(wanted, kv_budget_.max_model_len - static_cast<int64_t>(request.prompt.size()));
  }

  ~Engine();

  /// Uses the weights of the decoder's last refresh(). Results in the order of requests; `on_finished`
  /// is called as soon as a response is made, while others are still under way.
  /// Throws invalid_config naming every request that cannot be served (and the setting that forbids
  /// it), internal if the logits are not numbers.
  std::vector<Completion> generate(std::vector<Request> requests,
                                   const OnFinished& on_finished = {});

  EngineStats take_stats();

 private:
  void check(const std::vector<Request>& requests) const;
  void add_to_stats(const Scheduler& scheduler);

  const models::Decoder& decoder_;
  const RolloutConfig config_;
  const KvBudget kv_budget_;
  StopCondition stop_condition_;
  const std::unique_ptr<StepRunner> runner_;
  std::function<void()> forward_is_done_;
  EngineStats stats_;
};

}  // namespace trireme::rollout
