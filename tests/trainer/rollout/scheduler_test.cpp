// The scheduler against a model that is no network: a slot of its cache remembers the history that was
// written there, and the next token is a hash of it. A wrong, stale or overwritten slot breaks the chain.
#include "trainer/rollout/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <set>
#include <string>

#include "trainer/rollout/philox.h"

namespace trireme::rollout {
namespace {

constexpr int32_t kVocabSize = 20;

uint64_t mix(uint64_t history, uint64_t token) {
  const PhiloxBlock b = philox4x32(
      {static_cast<uint32_t>(history), static_cast<uint32_t>(history >> 32), static_cast<uint32_t>(token), 0},
      {1, 2});
  return uint64_t{b[0]} << 32 | b[1];
}

/// One to three bytes; some begin or end within a character of UTF-8.
std::string_view text_of(int32_t token) {
  static const std::vector<std::string> texts = {"a",
                                                 "b",
                                                 "ab",
                                                 "\n",
                                                 "\n\n",
                                                 "",
                                                 "ba",
                                                 "aa",
                                                 "\xc3",
                                                 "\xa9",
                                                 "\xa9"
                                                 "b",
                                                 "a\xc3",
                                                 "bb",
                                                 "aab",
                                                 "c",
                                                 "ca",
                                                 "bc",
                                                 "abc",
                                                 "\nb",
                                                 "cc"};
  return texts.at(token);
}

int32_t next_token(uint64_t history, const Request& request, int32_t sample, int64_t position) {
  const double u = sampling_uniform(sampling_key(request.seed, request.step), request.id, sample, position);
  return static_cast<int32_t>(mix(history, static_cast<uint64_t>(u * 0x1p40)) % kVocabSize);
}

class HashModel {
 public:
  explicit HashModel(int64_t num_slots) : slots_(num_slots) {}

  /// Writes every row, then checks what every row can see, as each layer of a decoder does it; returns the
  /// history that ends in each row.
  std::vector<uint64_t> forward(const models::ForwardBatch& batch) {
    std::vector<uint64_t> out(batch.num_rows());
    std::set<int32_t> written;
    int32_t row = 0;
    for (const models::Segment& segment : batch.segments) {
      EXPECT_EQ(segment.row, row);
      const std::vector<int32_t> visible = visible_slots(segment);
      for (int32_t i = 0; i < segment.length; ++i, ++row) {
        const int32_t position = segment.position + i;
        EXPECT_EQ(batch.positions[row], position);
        EXPECT_EQ(batch.slots[row], visible[position]);
        EXPECT_TRUE(written.insert(visible[position]).second) << "two rows write one slot";
        const uint64_t before = position == 0 ? 0 : slots_[visible[position - 1]].history;
        slots_[visible[position]] = {position, before, mix(before, batch.tokens[row])};
        out[row] = slots_[visible[position]].history;
      }
    }
    EXPECT_EQ(row, batch.num_rows());
    for (const models::Segment& segment : batch.segments) {
      const std::vector<int32_t> visible = visible_slots(segment);
      for (size_t p = 0; p < visible.size(); ++p) {
        EXPECT_EQ(slots_[visible[p]].position, static_cast<int32_t>(p));
        EXPECT_EQ(slots_[visible[p]].before, p == 0 ? 0 : slots_[visible[p - 1]].history);
      }
    }
    return out;
  }

 private:
  static std::vector<int32_t> visible_slots(const models::Segment& segment) {
    std::vector<int32_t> visible;
    for (const models::SlotSpan& span : segment.spans) {
      EXPECT_GT(span.length, 0);
      for (int32_t i = 0; i < span.length; ++i) visible.push_back(span.slot + i);
    }
    EXPECT_EQ(visible.size(), static_cast<size_t>(segment.position + segment.length));
    return visible;
  }

  struct Slot {
    int32_t position = -1;
    uint64_t before = 0, history = 0;
  };
  std::vector<Slot> slots_;
};

std::vector<Request> random_requests(std::mt19937& random, int count) {
  std::vector<Request> requests(count);
  for (int r = 0; r < count; ++r) {
    requests[r].id = 100 + r;
    requests[r].seed = 5;
    requests[r].step = 2;
    requests[r].n = 1 + random() % 6;
    requests[r].max_new_tokens = 1 + random() % 20;
    requests[r].prompt.resize(1 + random() % 40);
    for (int32_t& token : requests[r].prompt) token = random() % kVocabSize;
    for (const char* stop : {"abab", "\n\n", "\xc3\xa9", "ca", "b\nb"}) {
      if (random() % 12 == 0) requests[r].sampling.stop.push_back(stop);
    }
    if (r > 0 && random() % 2) {  // begins as another one does, or is the same
      const auto& other = requests[random() % r].prompt;
      auto& prompt = requests[r].prompt;
      std::copy_n(other.begin(), random() % (std::min(other.size(), prompt.size()) + 1), prompt.begin());
      if (random() % 4 == 0) prompt = other;
    }
  }
  return requests;
}

/// The same response without a cache, a batch or a scheduler.
Response expected_response(const Request& request, int32_t sample, const std::vector<bool>& stop) {
  uint64_t history = 0;
  for (const int32_t token : request.prompt) history = mix(history, token);
  Response out;
  std::string text;
  while (static_cast<int64_t>(out.tokens.size()) < request.max_new_tokens && !out.stopped) {
    const int32_t token = next_token(history, request, sample, out.tokens.size());
    out.tokens.push_back(token);
    history = mix(history, token);
    out.stopped = stop[token];
    for (const char byte : text_of(token)) {  // byte by byte, the first and longest string that is there
      text += byte;
      for (const std::string& string : request.sampling.stop) {
        if (out.stopped || !text.ends_with(string)) continue;
        const auto begin = static_cast<int64_t>(text.size() - string.size());
        if (out.text_length < 0 || begin < out.text_length) out.text_length = begin;
      }
      if (out.text_length >= 0) out.stopped = true;
    }
  }
  return out;
}

struct Outcome {
  std::vector<Completion> completions;
  std::vector<std::pair<int64_t, size_t>> finished;  // ids and samples, in order
  SchedulerStats stats;
  int64_t rows = 0, steps = 0, available_pages = 0, peak_pages = 0, most_segments = 0, most_rows = 0;
};

StopCondition condition_of(const std::vector<bool>& stop) {
  std::vector<int32_t> ids;
  for (int32_t token = 0; token < kVocabSize; ++token)
    if (stop[token]) ids.push_back(token);
  StopCondition condition(ids, kVocabSize);
  condition.set_token_text(text_of);
  return condition;
}

Outcome run(const RolloutConfig& config, int64_t num_pages, const std::vector<Request>& requests,
            const std::vector<bool>& stop) {
  Outcome out;
  HashModel model(num_pages * config.page_size);
  const StopCondition stop_condition = condition_of(stop);
  Scheduler scheduler(config, num_pages, requests, stop_condition, out.completions);
  while (!scheduler.is_done()) {
    const StepPlan& plan = scheduler.schedule();
    const auto histories = model.forward(plan.batch);
    std::vector<SampledToken> drawn;
    for (const SampledRow& row : plan.sampled_rows) {
      for (int32_t s = row.sequence; s < row.sequence + row.num_draws; ++s) {
        drawn.push_back({next_token(histories[row.row], scheduler.request_of(s), scheduler.sample_of(s),
                                    scheduler.num_sampled(s)),
                         -1.0f, 2.0f});
      }
    }
    scheduler.retire(drawn, [&](size_t request, size_t sample, const Response& response) {
      EXPECT_EQ(&response, &out.completions[request].responses[sample]);
      out.finished.emplace_back(requests[request].id, sample);
    });
    out.rows += plan.batch.num_rows();
    out.most_rows = std::max(out.most_rows, plan.batch.num_rows());
    out.most_segments = std::max(out.most_segments, static_cast<int64_t>(plan.batch.segments.size()));
    if (++out.steps > 100000 || testing::Test::HasFailure()) break;
  }
  out.stats = scheduler.stats();
  out.available_pages = scheduler.pages().num_available();
  out.peak_pages = scheduler.pages().peak_used();
  return out;
}

void expect_right(const Outcome& out, const std::vector<Request>& requests, const std::vector<bool>& stop) {
  ASSERT_EQ(out.completions.size(), requests.size());
  for (size_t r = 0; r < requests.size(); ++r) {
    ASSERT_EQ(out.completions[r].id, requests[r].id);
    ASSERT_EQ(out.completions[r].responses.size(), static_cast<size_t>(requests[r].n));
    for (int32_t j = 0; j < requests[r].n; ++j) {
      const Response& response = out.completions[r].responses[j];
      const Response expected = expected_response(requests[r], j, stop);
      ASSERT_EQ(response.tokens, expected.tokens) << "request " << r << " sample " << j;
      ASSERT_EQ(response.log_probs.size(), response.tokens.size());
      ASSERT_EQ(response.entropies.size(), response.tokens.size());
      ASSERT_EQ(response.stopped, expected.stopped);
      ASSERT_EQ(response.text_length, expected.text_length);
      ASSERT_EQ(response.stop_string >= 0, expected.text_length >= 0);
    }
  }
}

std::vector<bool> stop_at(std::initializer_list<int> tokens) {
  std::vector<bool> stop(kVocabSize, false);
  for (const int token : tokens) stop[token] = true;
  return stop;
}

TEST(Scheduler, MakesTheSameResponsesUnderAnyLimits) {
  const auto stop = stop_at({3, 17});
  int64_t preemptions = 0, recomputed = 0, found = 0, by_string = 0;
  const char* wide = std::getenv("TRIREME_TEST_SCHEDULES");
  const uint32_t num_schedules = wide ? static_cast<uint32_t>(std::stoul(wide)) : 2000;
  for (uint32_t seed = 0; seed < num_schedules; ++seed) {
    std::mt19937 random(seed);
    const auto requests = random_requests(random, 1 + random() % 12);
    RolloutConfig config;
    config.page_size = 1 + random() % 9;
    config.max_num_seqs = 1 + random() % 12;
    config.max_num_batched_tokens = 1 + random() % (random() % 2 ? 8 : 80);
    int64_t least = 0;
    for (const Request& r : requests) {
      const auto cached = static_cast<int64_t>(r.prompt.size()) + r.max_new_tokens - 1;
      least = std::max(least, (cached + config.page_size - 1) / config.page_size);
    }
    const int64_t num_pages = least + random() % (random() % 2 ? 3 : 200);
    const Outcome out = run(config, num_pages, requests, stop);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
    expect_right(out, requests, stop);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
    ASSERT_EQ(out.available_pages, num_pages) << "pages leaked, seed " << seed;
    ASSERT_LE(out.most_rows, config.max_num_batched_tokens);
    ASSERT_LE(out.most_segments, config.max_num_seqs);
    auto finished = out.finished;
    std::sort(finished.begin(), finished.end());
    size_t samples = 0;
    for (const Request& request : requests) samples += static_cast<size_t>(request.n);
    ASSERT_EQ(finished.size(), samples);
    ASSERT_TRUE(std::adjacent_find(finished.begin(), finished.end()) == finished.end());
    preemptions += out.stats.preemptions;
    recomputed += out.stats.recomputed_tokens;
    found += out.stats.cached_prompt_tokens;
    ASSERT_LE(out.stats.cached_prompt_tokens, out.stats.prompt_tokens);
    ASSERT_LE(out.stats.peak_running, config.max_num_seqs);
    for (const Completion& completion : out.completions)
      for (const Response& response : completion.responses) by_string += response.stop_string >= 0;
  }
  EXPECT_GT(preemptions, 1000);  // the sweep did meet tiny pools
  EXPECT_GT(recomputed, 1000);
  EXPECT_GT(found, 1000);
  EXPECT_GT(by_string, 1000);
}

/// The tokens that nobody else has computed: a trie of the prompts, and every response behind it.
int64_t rows_needed(const std::vector<Request>& requests, const std::vector<Completion>& completions) {
  std::set<std::vector<int32_t>> histories;
  int64_t rows = 0;
  for (size_t r = 0; r < requests.size(); ++r) {
    const auto& prompt = requests[r].prompt;
    for (size_t length = 1; length < prompt.size(); ++length)
      histories.insert({prompt.begin(), prompt.begin() + length});
    ++rows;  // the last token of each prompt
    for (const Response& response : completions[r].responses) rows += response.tokens.size() - 1;
  }
  return rows + static_cast<int64_t>(histories.size());
}

TEST(Scheduler, ComputesEveryTokenOnceWherePagesSuffice) {
  const auto stop = stop_at({3});
  for (uint32_t seed = 0; seed < 100; ++seed) {
    std::mt19937 random(seed);
    const auto requests = random_requests(random, 10);
    RolloutConfig config;
    config.page_size = 4;
    config.max_num_seqs = 1 + random() % 20;  // also fewer than one request's samples
    config.max_num_batched_tokens = 1 + random() % 60;
    const Outcome out = run(config, 60 * 16, requests, stop);
    // A last token that another prompt goes on from was computed already, and is once more.
    ASSERT_LE(out.rows, rows_needed(requests, out.completions)) << seed;
    ASSERT_EQ(out.stats.preemptions, 0);
    ASSERT_EQ(out.stats.recomputed_tokens, 0);
  }
}

TEST(Scheduler, DecodesGoOnWhileALongPromptIsComputedInChunks) {
  std::vector<Request> requests(2);
  requests[0] = {.id = 0, .prompt = {1}, .max_new_tokens = 20};
  requests[1] = {.id = 1, .prompt = std::vector<int32_t>(30, 2), .max_new_tokens = 1};
  const auto stop = stop_at({});
  RolloutConfig config;
  config.max_num_batched_tokens = 4;
  std::vector<Completion> completions;
  HashModel model(1024);
  const StopCondition stop_condition = condition_of(stop);
  Scheduler scheduler(config, 1024 / config.page_size, requests, stop_condition, completions);
  for (int step = 0; step < 10; ++step) {
    const StepPlan& plan = scheduler.schedule();
    model.forward(plan.batch);
    ASSERT_EQ(plan.batch.segments.size(), 2u);
    EXPECT_EQ(plan.batch.segments[0].length, 1);  // the decode, or the prompt of one token
    EXPECT_EQ(plan.batch.segments[1].length, 3);
    EXPECT_EQ(plan.sampled_rows.size(), step == 9 ? 2u : 1u);
    scheduler.retire(std::vector<SampledToken>(plan.sampled_rows.size()), {});
  }
}

TEST(Scheduler, SamplesShareThePagesOfTheirPrompt) {
  std::vector<Request> requests(1);
  requests[0] = {.id = 0, .prompt = std::vector<int32_t>(35, 2), .n = 8, .max_new_tokens = 12};
  const auto stop = stop_at({});
  RolloutConfig config;
  const Outcome out = run(config, 100, requests, stop);
  expect_right(out, requests, stop);
  // 3 pages of 16 for the prompt and the first sample's 11 cached tokens, one for each other sample's.
  EXPECT_EQ(out.peak_pages, 3 + 7);
  EXPECT_EQ(out.steps, 12);
}

TEST(Scheduler, ReportsResponsesAsSoonAsTheyAreFinished) {
  std::vector<Request> requests(3);
  requests[0] = {.id = 10, .prompt = {1}, .n = 2, .max_new_tokens = 9};
  requests[1] = {.id = 11, .prompt = {2}, .n = 2, .max_new_tokens = 1};
  requests[2] = {.id = 12, .prompt = {3}, .n = 1, .max_new_tokens = 5};
  const Outcome out = run({}, 64, requests, stop_at({}));
  EXPECT_EQ(out.finished, (std::vector<std::pair<int64_t, size_t>>{{11, 0}, {11, 1}, {12, 0}, {10, 0}, {10, 1}}));
}

}  // namespace
}  // namespace trireme::rollout
