#include "trainer/rollout/scheduler.h"

#include <algorithm>

#include "runtime/base/error.h"

namespace trireme::rollout {
namespace {

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

void insert_sorted(std::vector<int32_t>& sequences, int32_t sequence) {
  sequences.insert(std::lower_bound(sequences.begin(), sequences.end(), sequence), sequence);
}

}  // namespace

Scheduler::Scheduler(const RolloutConfig& config, int64_t num_pages, std::span<const Request> requests,
                     const std::vector<bool>& stop_tokens, std::vector<Completion>& completions)
    : max_running_(config.max_num_seqs),
      max_rows_(config.max_num_batched_tokens),
      page_size_(static_cast<int32_t>(config.page_size)),
      requests_(requests),
      stop_tokens_(stop_tokens),
      completions_(completions),
      pool_(num_pages),
      progress_(requests.size()) {
  completions_.resize(requests.size());
  for (size_t r = 0; r < requests.size(); ++r) {
    progress_[r].first_sequence = static_cast<int32_t>(sequences_.size());
    progress_[r].num_unfinished = static_cast<int32_t>(requests[r].n);
    completions_[r].id = requests[r].id;
    completions_[r].responses.resize(requests[r].n);
    for (int64_t j = 0; j < requests[r].n; ++j) {
      Sequence& s = sequences_.emplace_back();
      s.request = static_cast<int32_t>(r);
      s.sample = static_cast<int32_t>(j);
    }
  }
  num_unfinished_ = static_cast<int64_t>(sequences_.size());
}

// ---- what the next forward computes

const StepPlan& Scheduler::plan_step() {
  models::ForwardBatch& batch = plan_.batch;
  batch.tokens.clear();
  batch.positions.clear();
  batch.slots.clear();
  plan_.sampled_rows.clear();
  plan_.num_draws = 0;
  num_segments_ = 0;
  rows_left_ = max_rows_;
  short_of_pages_ = false;

  keep_prompt_for_waiting();
  plan_decodes();
  plan_prefills();
  // What was preempted in this step would only be preempted again.
  if (!short_of_pages_ || batch.tokens.empty()) admit();
  batch.segments.resize(num_segments_);
  TRIREME_CHECK(!batch.tokens.empty(), "nothing to compute with {} sequences unfinished", num_unfinished_);
  return plan_;
}

void Scheduler::plan_decodes() {
  // Oldest first: a sequence takes pages from younger ones only, which have no rows in this step yet.
  for (size_t i = 0; i < running_.size() && rows_left_ > 0; ++i) {
    const int32_t sequence = running_[i];
    const Sequence& s = sequences_[sequence];
    if (remaining(s) == 1 && (s.room > 0 || make_room(sequence))) plan_rows(sequence, 1);
  }
}

void Scheduler::plan_prefills() {
  for (size_t i = 0; i < running_.size() && rows_left_ > 0; ++i) {
    const int32_t sequence = running_[i];
    const Sequence& s = sequences_[sequence];
    const int64_t wanted = std::min<int64_t>(remaining(s), rows_left_);
    if (wanted == 0) continue;
    // A prompt waits for the pages of running decodes, unless there are none.
    if (room_for(s) == 0 && plan_.batch.tokens.empty() && !make_room(sequence)) return;
    const int64_t count = std::min(wanted, room_for(s));
    if (count < wanted) short_of_pages_ = true;
    if (count > 0) plan_rows(sequence, static_cast<int32_t>(count));
  }
}

void Scheduler::admit() {
  while (rows_left_ > 0 && num_running_or_reserved() < max_running_) {
    const bool is_new = waiting_.empty();
    if (is_new && next_request_ == requests_.size()) return;
    const int32_t sequence = is_new ? progress_[next_request_].first_sequence : waiting_.front();
    const Sequence& s = sequences_[sequence];
    Progress& progress = progress_[s.request];
    if (progress.has_started && progress.prompt_pages.empty() && progress.num_running > 0) {
      return;  // another sample is computing the prompt again: share it when it is there
    }
    if (!running_.empty() && !has_pages_for(s)) return;
    if (is_new) {
      ++next_request_;
    } else {
      waiting_.erase(waiting_.begin());
    }
    start(sequence);
    if (room_for(s) == 0 && !make_room(sequence)) continue;
    plan_rows(sequence, static_cast<int32_t>(std::min({int64_t{remaining(s)}, rows_left_, room_for(s)})));
  }
}

/// Pages for all of its tokens so far, one more for each sequence that starts with it, and one left for
/// each that runs: so that it is not the next to be preempted.
bool Scheduler::has_pages_for(const Sequence& s) const {
  const Progress& progress = progress_[s.request];
  const bool shares = !progress.prompt_pages.empty();
  const int64_t starting = progress.has_started ? 1 : num_to_reserve(s);
  const int64_t own = ceil_div(shares ? length(s) - prompt_length(s) : length(s), page_size_);
  return pool_.can_take(own + starting + num_running_or_reserved());
}

int32_t Scheduler::num_to_reserve(const Sequence& s) const {
  return static_cast<int32_t>(std::min(requests_[s.request].n, max_running_ - num_running_or_reserved()));
}

void Scheduler::start(int32_t sequence) {
  Sequence& s = sequences_[sequence];
  Progress& progress = progress_[s.request];
  if (!progress.has_started) {
    progress.reserved = num_to_reserve(s);
    reserved_ += progress.reserved - 1;
  }
  if (!progress.prompt_pages.empty()) {
    for (const int32_t page : progress.prompt_pages) pool_.share(page);
    s.pages = progress.prompt_pages;
    s.spans = progress.prompt_spans;
    s.computed = prompt_length(s);
    s.seen = std::max(s.seen, s.computed);
  }
  ++progress.num_running;
  insert_sorted(running_, sequence);
}

void Scheduler::plan_rows(int32_t sequence, int32_t count) {
  Sequence& s = sequences_[sequence];
  models::ForwardBatch& batch = plan_.batch;
  if (num_segments_ == batch.segments.size()) batch.segments.emplace_back();
  models::Segment& segment = batch.segments[num_segments_++];
  segment.row = static_cast<int32_t>(batch.tokens.size());
  segment.length = count;
  segment.position = s.computed;

  const std::vector<int32_t>& prompt = requests_[s.request].prompt;
  const std::vector<int32_t>& sampled = response_of(s).tokens;
  const auto prompt_end = static_cast<int32_t>(prompt.size());
  for (int32_t position = s.computed; position < s.computed + count; ++position) {
    batch.tokens.push_back(position < prompt_end ? prompt[position] : sampled[position - prompt_end]);
    batch.positions.push_back(position);
    batch.slots.push_back(take_slot(s));
  }
  segment.spans.assign(s.spans.begin(), s.spans.end());
  stats_.recomputed_tokens += std::clamp(s.seen - s.computed, 0, count);
  s.computed += count;
  s.seen = std::max(s.seen, s.computed);
  rows_left_ -= count;

  if (remaining(s) > 0) return;
  const bool is_first = !progress_[s.request].has_started;
  const int32_t num_draws = is_first ? static_cast<int32_t>(requests_[s.request].n) : 1;
  plan_.sampled_rows.push_back(
      {static_cast<int32_t>(batch.tokens.size()) - 1, sequence, plan_.num_draws, num_draws});
  plan_.num_draws += num_draws;
}

int32_t Scheduler::take_slot(Sequence& s) {
  if (s.room == 0) {
    s.pages.push_back(pool_.take());
    s.next_slot = s.pages.back() * page_size_;
    s.room = page_size_;
  }
  if (s.spans.empty() || s.spans.back().slot + s.spans.back().length != s.next_slot) {
    s.spans.push_back({s.next_slot, 0});
  }
  ++s.spans.back().length;
  --s.room;
  return s.next_slot++;
}

// ---- pages

int64_t Scheduler::room_for(const Sequence& s) const {
  return s.room + pool_.num_free() * page_size_;
}

/// One free page for `sequence`, from the youngest if need be. False if that was `sequence` itself.
bool Scheduler::make_room(int32_t sequence) {
  while (!pool_.can_take(1)) {
    if (drop_idle_prompt()) continue;
    const int32_t victim = running_.back();
    preempt_youngest();
    if (victim != sequence) continue;
    // Alone and still short, for the page that a shared prompt leaves partly filled: start again from
    // the first token, without gaps.
    if (running_.empty()) drop_prompt(progress_[sequences_[sequence].request]);
    return false;
  }
  return true;
}

void Scheduler::preempt_youngest() {
  const int32_t sequence = running_.back();
  running_.pop_back();
  Sequence& s = sequences_[sequence];
  Progress& progress = progress_[s.request];
  release_pages(s);
  --progress.num_running;
  if (!progress.has_started) reserved_ -= progress.reserved - 1;
  insert_sorted(waiting_, sequence);
  short_of_pages_ = true;
  ++stats_.preemptions;
}

void Scheduler::release_pages(Sequence& s) {
  for (const int32_t page : s.pages) pool_.give_back(page);
  s.pages.clear();
  s.spans.clear();
  s.computed = s.room = 0;
}

/// Gives back a prompt that only waiting samples could use. False if there is none.
bool Scheduler::drop_idle_prompt() {
  for (auto it = waiting_.rbegin(); it != waiting_.rend(); ++it) {
    Progress& progress = progress_[sequences_[*it].request];
    if (progress.num_running > 0 || progress.prompt_pages.empty()) continue;
    drop_prompt(progress);
    return true;
  }
  return false;
}

void Scheduler::drop_prompt(Progress& progress) {
  for (const int32_t page : progress.prompt_pages) pool_.give_back(page);
  progress.prompt_pages.clear();
  progress.prompt_spans.clear();
}

/// Keeps the prompt's pages for samples to come; `s` has computed it in an earlier step.
void Scheduler::keep_prompt(Progress& progress, const Sequence& s) {
  int32_t left = prompt_length(s);
  for (const models::SlotSpan& span : s.spans) {
    if (left == 0) break;
    progress.prompt_spans.push_back({span.slot, std::min(span.length, left)});
    left -= progress.prompt_spans.back().length;
  }
  progress.prompt_pages.assign(s.pages.begin(), s.pages.begin() + ceil_div(prompt_length(s), page_size_));
  for (const int32_t page : progress.prompt_pages) pool_.share(page);
}

/// A prompt that was dropped and is computed again by one sample serves the next one in line too.
void Scheduler::keep_prompt_for_waiting() {
  if (waiting_.empty()) return;
  Progress& progress = progress_[sequences_[waiting_.front()].request];
  if (!progress.has_started || !progress.prompt_pages.empty() || progress.num_running == 0) return;
  for (int64_t j = 0; j < requests_[sequences_[waiting_.front()].request].n; ++j) {
    const Sequence& s = sequences_[progress.first_sequence + j];
    if (s.computed >= prompt_length(s)) return keep_prompt(progress, s);
  }
}

// ---- what was drawn

void Scheduler::complete_step(std::span<const SampledToken> drawn,
                              const std::function<void(const Completion&)>& on_finished) {
  for (const SampledRow& row : plan_.sampled_rows) {
    if (progress_[sequences_[row.sequence].request].has_started) {
      accept(row.sequence, drawn[row.first_draw]);
    } else {
      start_samples(row, drawn.subspan(row.first_draw, row.num_draws));
    }
  }
  std::erase_if(running_, [&](int32_t sequence) { return sequences_[sequence].is_finished; });
  for (const int32_t request : finished_requests_) {
    if (on_finished) on_finished(completions_[request]);
  }
  finished_requests_.clear();
}

/// The first tokens of a request's samples: all were drawn from the prompt's last row.
void Scheduler::start_samples(const SampledRow& row, std::span<const SampledToken> drawn) {
  const Sequence& first = sequences_[row.sequence];
  Progress& progress = progress_[first.request];
  progress.has_started = true;
  reserved_ -= progress.reserved - 1;
  if (row.num_draws > 1) keep_prompt(progress, first);
  int32_t num_started = 1;
  for (int32_t j = 0; j < row.num_draws; ++j) {
    const int32_t sequence = row.sequence + j;
    accept(sequence, drawn[j]);
    if (j == 0 || sequences_[sequence].is_finished) continue;
    if (num_started < progress.reserved) {
      start(sequence);
      ++num_started;
    } else {
      insert_sorted(waiting_, sequence);
    }
  }
}

void Scheduler::accept(int32_t sequence, const SampledToken& drawn) {
  Sequence& s = sequences_[sequence];
  Response& response = response_of(s);
  response.tokens.push_back(drawn.token);
  response.log_probs.push_back(drawn.log_prob);
  response.entropies.push_back(drawn.entropy);
  response.stopped = stop_tokens_[drawn.token];
  const auto num_sampled = static_cast<int64_t>(response.tokens.size());
  if (response.stopped || num_sampled == requests_[s.request].max_new_tokens) finish(s);
}

void Scheduler::finish(Sequence& s) {
  Progress& progress = progress_[s.request];
  s.is_finished = true;
  if (!s.pages.empty()) --progress.num_running;  // one that ends with its first token may never have run
  release_pages(s);
  --num_unfinished_;
  if (--progress.num_unfinished > 0) return;
  drop_prompt(progress);
  finished_requests_.push_back(s.request);
}

}  // namespace trireme::rollout
