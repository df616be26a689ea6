// Continuous batching over a paged cache: which rows the next forward computes, and where their keys
// and values lie. Knows nothing of weights or logits.
//
// A sequence is one sample of a request. Sequences are numbered request by request, sample by sample;
// a lower number is older and goes first. Of a new request only the first sequence runs: when its
// prompt is computed, all n samples draw their first token from the prompt's last row, and the others
// start from there, on the prompt's pages.
//
// A sequence that starts computes only what the prefix cache does not hold, and at least its last token,
// whose row of logits is wanted. It may read pages that an older sequence fills in the same forward: each
// layer writes the keys of all rows before any row reads.
//
// When pages run out, the youngest running sequence gives its own back and waits. Later it goes on with
// its sampled tokens as if they were prompt, from the pages that still stand: nothing is drawn twice.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "trainer/models/forward_batch.h"
#include "trainer/rollout/prefix_cache.h"
#include "trainer/rollout/request.h"
#include "trainer/rollout/rollout_config.h"
#include "trainer/rollout/sampler.h"
#include "trainer/rollout/stop_condition.h"

namespace trireme::rollout {

/// A row of logits that is needed, and the sequences that draw from it: `num_draws` from `sequence` on
/// (all samples of a new request, otherwise one).
struct SampledRow {
  int32_t row = 0;  // of the batch
  int32_t sequence = 0;
  int32_t first_draw = 0;  // this step's draws, of all rows, are numbered in order
  int32_t num_draws = 1;
};

struct StepPlan {
  models::ForwardBatch batch;
  std::vector<SampledRow> sampled_rows;
  int32_t num_draws = 0;
};

struct SchedulerStats {
  int64_t prompt_tokens = 0;         // of sequences that started, each its whole prompt
  int64_t cached_prompt_tokens = 0;  // of these, found on pages
  int64_t recomputed_tokens = 0;     // rows computed again after a preemption
  int64_t preemptions = 0;
  int64_t steps = 0;
  int64_t running_sum = 0, peak_running = 0;  // sequences, over the steps
  int64_t waiting_sum = 0, peak_waiting = 0;
};

class Scheduler {
 public:
  /// Every request must fit in `num_pages` on its own. The borrowed arguments
  /// must outlive the scheduler.
  Scheduler(const RolloutConfig& config, int64_t num_pages, std::span<const Request> requests,
            const StopCondition& stop_condition, std::vector<Completion>& completions);

  bool is_done() const { return num_unfinished_ == 0; }

  /// The next forward, at least one row. Valid until the next call.
  const StepPlan& schedule();

  /// Takes the plan's draws, in their order, and lets finished sequences go.
  /// `on_finished` gets each of them.
  void retire(std::span<const SampledToken> drawn, const OnFinished& on_finished);

  const Request& request_of(int32_t sequence) const { return requests_[sequences_[sequence].request]; }
  int32_t sample_of(int32_t sequence) const { return sequences_[sequence].sample; }
  /// How many tokens the sequence has sampled: the position of the next one.
  int64_t num_sampled(int32_t sequence) const { return response_of(sequences_[sequence]).tokens.size(); }

  const PrefixCache& pages() const { return cache_; }
  const SchedulerStats& stats() const { return stats_; }

 private:
  struct Sequence {
    int32_t request = 0, sample = 0;
    int32_t computed = 0;                 // positions whose keys and values lie in the cache
    int32_t room = 0;                     // slots left on the last page, if it is its own to write on
    int32_t seen = 0;                     // the most that computed has ever been
    std::vector<PageRun> pages;           // positions 0 .. computed - 1, one reference a page
    std::vector<models::SlotSpan> spans;  // the same, in slots
    bool has_started = false, is_finished = false;
  };
  struct Progress {  // of a request
    int32_t first_sequence = 0;
    int32_t reserved = 0;      // sequences that may run once the prompt is computed
    bool has_started = false;  // its first tokens are drawn
  };

  Response& response_of(const Sequence& s) const { return completions_[s.request].responses[s.sample]; }
  int32_t prompt_length(const Sequence& s) const { return requests_[s.request].prompt.size(); }
  int32_t length(const Sequence& s) const { return prompt_length(s) + response_of(s).tokens.size(); }
  int32_t remaining(const Sequence& s) const { return length(s) - s.computed; }
  int64_t room_for(const Sequence& s) const;
  int64_t num_running_or_reserved() const { return static_cast<int64_t>(running_.size()) + reserved_; }

  void plan_decodes();
  void plan_prefills();
  void admit();
  std::vector<PageRun> find(const Sequence& s);
  bool has_pages_for(const Sequence& s, std::span<const PageRun> found) const;
  int32_t num_to_reserve(const Sequence& s) const;
  void start(int32_t sequence, std::span<const PageRun> found);
  void plan_rows(int32_t sequence, int32_t count);
  int32_t take_slot(Sequence& s, int32_t token);
  void add_span(Sequence& s, models::SlotSpan span);
  void count_sequences();

  bool make_room(int32_t sequence);
  void preempt_youngest();
  void release_pages(Sequence& s, int32_t num_kept);

  void start_samples(const SampledRow& row, std::span<const SampledToken> drawn);
  void accept(int32_t sequence, const SampledToken& drawn);
  void finish(int32_t sequence);

  const int64_t max_running_, max_rows_;
  const int32_t page_size_;
  const std::span<const Request> requests_;
  const StopCondition& stop_condition_;
  std::vector<Completion>& completions_;

  PrefixCache cache_;
  std::vector<Sequence> sequences_;
  std::vector<Progress> progress_;
  // Sequences, ascending; requests that never ran are behind next_request_.
  std::vector<int32_t> running_, waiting_;
  std::vector<int32_t> finished_;  // in this step
  size_t next_request_ = 0;        // the first that has never been admitted
  int64_t num_unfinished_ = 0;     // sequences
  int64_t reserved_ = 0;           // sequences to come of running prompts
  int64_t rows_left_ = 0;          // of this step's budget
  bool short_of_pages_ = false;    // in this step
  std::vector<int32_t> history_;   // scratch of find()
  StepPlan plan_;
  size_t num_segments_ = 0;  // of the plan under way; segments keep their memory
  SchedulerStats stats_;
};

}  // namespace trireme::rollout
