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
                     const StopCondition& stop_condition, std::vector<Completion>& completions)
    : max_running_(config.max_num_seqs),
      max_rows_(config.max_num_batched_tokens),
      page_size_(static_cast<int32_t>(config.page_size)),
      requests_(requests),
      stop_condition_(stop_condition),
      completions_(completions),
      cache_(num_pages, page_size_),
      progress_(requests.size()) {
  completions_.resize(requests.size());
  for (size_t r = 0; r < requests.size(); ++r) {
    progress_[r].first_sequence = static_cast<int32_t>(sequences_.size());
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

const StepPlan& Scheduler::schedule() {
  models::ForwardBatch& batch = plan_.batch;
  batch.tokens.clear();
  batch.positions.clear();
  batch.slots.clear();
  plan_.sampled_rows.clear();
  plan_.num_draws = 0;
  num_segments_ = 0;
  rows_left_ = max_rows_;
  short_of_pages_ = false;

  plan_decodes();
  plan_prefills();
  // What was preempted in this step would only be preempted again.
  if (!short_of_pages_ || batch.tokens.empty()) admit();
  batch.segments.resize(num_segments_);
  TRIREME_CHECK(!batch.tokens.empty(), "nothing to compute with {} sequences unfinished", num_unfinished_);
  count_sequences();
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
    const std::vector<PageRun> found = find(s);
    if (!running_.empty() && !has_pages_for(s, found)) return;
    if (is_new) {
      ++next_request_;
    } else {
      waiting_.erase(waiting_.begin());
    }
    start(sequence, found);
    if (room_for(s) == 0 && !make_room(sequence)) continue;
    plan_rows(sequence, static_cast<int32_t>(std::min({int64_t{remaining(s)}, rows_left_, room_for(s)})));
  }
}

/// What stands on pages of all its tokens but the last.
std::vector<PageRun> Scheduler::find(const Sequence& s) {
  const std::vector<int32_t>&prompt = requests_[s.request].prompt, &sampled = response_of(s).tokens;
  history_.assign(prompt.begin(), prompt.end());
  history_.insert(history_.end(), sampled.begin(), sampled.end());
  history_.pop_back();
  return cache_.find(history_);
}

/// Pages for all of its tokens so far, one more for each sequence that starts with it, and one left for
/// each that runs: so that it is not the next to be preempted.
bool Scheduler::has_pages_for(const Sequence& s, std::span<const PageRun> found) const {
  int64_t num_found = 0, num_idle = 0;  // idle pages that it reads are no longer to be had
  for (const PageRun& run : found) {
    num_found += run.length;
    num_idle += cache_.is_idle(run.page);
  }
  const int64_t starting = progress_[s.request].has_started ? 1 : num_to_reserve(s);
  const int64_t own = ceil_div(length(s) - num_found, page_size_);
  return cache_.num_available() - num_idle >= own + starting + num_running_or_reserved();
}

int32_t Scheduler::num_to_reserve(const Sequence& s) const {
  return static_cast<int32_t>(std::min(requests_[s.request].n, max_running_ - num_running_or_reserved()));
}

void Scheduler::start(int32_t sequence, std::span<const PageRun> found) {
  Sequence& s = sequences_[sequence];
  Progress& progress = progress_[s.request];
  if (!progress.has_started) {
    progress.reserved = num_to_reserve(s);
    reserved_ += progress.reserved - 1;
  }
  for (const PageRun& run : found) {
    cache_.share(run.page);
    s.pages.push_back(run);
    add_span(s, {run.page * page_size_, run.length});
    s.computed += run.length;
  }
  if (!s.has_started) {
    s.has_started = true;
    stats_.prompt_tokens += prompt_length(s);
    stats_.cached_prompt_tokens += std::min(s.computed, prompt_length(s));
  }
  s.seen = std::max(s.seen, s.computed);
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
    const int32_t token = position < prompt_end ? prompt[position] : sampled[position - prompt_end];
    batch.tokens.push_back(token);
    batch.positions.push_back(position);
    batch.slots.push_back(take_slot(s, token));
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

int32_t Scheduler::take_slot(Sequence& s, int32_t token) {
  if (s.room == 0) {
    s.pages.push_back({cache_.take(s.pages.empty() ? PageRun{} : s.pages.back()), 0});
    s.room = page_size_;
  }
  PageRun& last = s.pages.back();
  const int32_t slot = last.page * page_size_ + last.length;
  cache_.append(last.page, token);
  add_span(s, {slot, 1});
  ++last.length;
  --s.room;
  return slot;
}

void Scheduler::add_span(Sequence& s, models::SlotSpan span) {
  if (!s.spans.empty() && s.spans.back().slot + s.spans.back().length == span.slot) {
    s.spans.back().length += span.length;
  } else {
    s.spans.push_back(span);
  }
}

void Scheduler::count_sequences() {
  const auto running = static_cast<int64_t>(running_.size()), waiting = num_unfinished_ - running;
  ++stats_.steps;
  stats_.running_sum += running;
  stats_.waiting_sum += waiting;
  stats_.peak_running = std::max(stats_.peak_running, running);
  stats_.peak_waiting = std::max(stats_.peak_waiting, waiting);
}

// ---- pages

int64_t Scheduler::room_for(const Sequence& s) const {
  return s.room + cache_.num_available() * page_size_;
}

/// One page for `sequence`, from the youngest if need be. False if that was `sequence` itself.
bool Scheduler::make_room(int32_t sequence) {
  while (cache_.num_available() == 0) {
    const int32_t victim = running_.back();
    preempt_youngest();
    if (victim != sequence) continue;
    // Alone and still short, for the pages that it reads only in part: start again from the first token,
    // without gaps.
    if (running_.empty()) cache_.forget_idle();
    return false;
  }
  return true;
}

void Scheduler::preempt_youngest() {
  const int32_t sequence = running_.back();
  running_.pop_back();
  Sequence& s = sequences_[sequence];
  const Progress& progress = progress_[s.request];
  release_pages(s, s.computed);
  if (!progress.has_started) reserved_ -= progress.reserved - 1;
  insert_sorted(waiting_, sequence);
  short_of_pages_ = true;
  ++stats_.preemptions;
}

/// Pages with positions below `num_kept` can still be found, until their room is needed.
void Scheduler::release_pages(Sequence& s, int32_t num_kept) {
  for (int32_t position = s.computed; !s.pages.empty(); s.pages.pop_back()) {
    position -= s.pages.back().length;
    cache_.give_back(s.pages.back().page, position < num_kept);
  }
  s.spans.clear();
  s.computed = s.room = 0;
}

// ---- what was drawn

void Scheduler::retire(std::span<const SampledToken> drawn, const OnFinished& on_finished) {
  for (const SampledRow& row : plan_.sampled_rows) {
    if (progress_[sequences_[row.sequence].request].has_started) {
      accept(row.sequence, drawn[row.first_draw]);
    } else {
      start_samples(row, drawn.subspan(row.first_draw, row.num_draws));
    }
  }
  std::erase_if(running_, [&](int32_t sequence) { return sequences_[sequence].is_finished; });
  for (const int32_t sequence : finished_) {
    const Sequence& s = sequences_[sequence];
    if (on_finished)
      on_finished(static_cast<size_t>(s.request), static_cast<size_t>(s.sample), response_of(s));
  }
  finished_.clear();
}

/// The first tokens of a request's samples: all were drawn from the prompt's last row.
void Scheduler::start_samples(const SampledRow& row, std::span<const SampledToken> drawn) {
  Progress& progress = progress_[sequences_[row.sequence].request];
  progress.has_started = true;
  reserved_ -= progress.reserved - 1;
  const std::vector<PageRun> prompt = sequences_[row.sequence].pages;  // nothing is computed behind it yet
  int32_t num_started = 1;
  for (int32_t j = 0; j < row.num_draws; ++j) {
    const int32_t sequence = row.sequence + j;
    accept(sequence, drawn[j]);
    if (j == 0 || sequences_[sequence].is_finished) continue;
    if (num_started < progress.reserved) {
      start(sequence, prompt);
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
  response.stopped = stop_condition_.is_met(requests_[s.request].sampling.stop, response);
  const auto num_sampled = static_cast<int64_t>(response.tokens.size());
  if (response.stopped || num_sampled == requests_[s.request].max_new_tokens) finish(sequence);
}

void Scheduler::finish(int32_t sequence) {
  Sequence& s = sequences_[sequence];
  s.is_finished = true;
  release_pages(s, prompt_length(s));  // what it sampled is of no use to others
  --num_unfinished_;
  finished_.push_back(sequence);
}

}  // namespace trireme::rollout
