// A response is a function of the weights and its request: the same bytes, log-probabilities and entropies
// too, whatever it was computed with, and the log-probabilities are those that training computes.
#include <gtest/gtest.h>

#include <ATen/Parallel.h>

#include <bit>
#include <cstdlib>
#include <map>
#include <string>

#include "tests/trainer/rollout/tiny_model.h"
#include "trainer/rollout/engine.h"

namespace trireme::rollout {
namespace {

constexpr int64_t kVocabSize = 97, kLongest = 44;

uint32_t num_sweeps(uint32_t few) {
  const char* wide = std::getenv("TRIREME_TEST_SCHEDULES");
  return wide ? static_cast<uint32_t>(std::stoul(wide)) : few;
}

/// (id, sample) -> everything about it, as bits.
using Bits = std::map<std::pair<int64_t, size_t>, std::vector<uint32_t>>;

void add_bits(const std::vector<Completion>& completions, Bits& out) {
  for (const Completion& completion : completions) {
    for (size_t j = 0; j < completion.responses.size(); ++j) {
      const Response& response = completion.responses[j];
      std::vector<uint32_t>& bits = out[{completion.id, j}];
      bits.push_back(response.stopped);
      bits.push_back(static_cast<uint32_t>(response.stop_string));
      for (size_t i = 0; i < response.tokens.size(); ++i) {
        bits.push_back(static_cast<uint32_t>(response.tokens[i]));
        bits.push_back(std::bit_cast<uint32_t>(response.log_probs[i]));
        bits.push_back(std::bit_cast<uint32_t>(response.entropies[i]));
      }
    }
  }
}

class EngineExactness : public testing::TestWithParam<at::ScalarType> {
 protected:
  std::vector<Request> requests(uint32_t seed, int count) const {
    auto requests = random_requests(seed, count, kVocabSize);
    std::mt19937 random(seed + 1);
    for (Request& r : requests) {
      if (random() % 2) r.sampling.top_k = 20;
      if (random() % 2) r.sampling.top_p = 0.9;
      if (random() % 2) r.sampling.min_p = 0.02;
      if (random() % 3 == 0) r.sampling.stop = {"aa", "bca"};
    }
    return requests;
  }
  Bits generate(const RolloutConfig& config, const std::vector<Request>& requests,
                int64_t longest = kLongest) {
    Engine engine(model_.decoder(), config, {5}, longest);
    engine.set_token_text(
        [](int32_t token) { return std::string_view("abcd\n").substr(static_cast<size_t>(token % 5), 1); });
    Bits bits;
    add_bits(engine.generate(requests), bits);
    stats_ = engine.take_stats();
    preemptions_ += stats_.preemptions;
    return bits;
  }
  Bits alone(const std::vector<Request>& requests) {
    Bits bits;
    for (const Request& request : requests) bits.merge(generate({}, {request}));
    return bits;
  }

  TinyModel model_{kVocabSize, GetParam()};
  EngineStats stats_;
  int64_t preemptions_ = 0;
};

RolloutConfig random_config(std::mt19937& random) {
  RolloutConfig config;
  config.page_size = 1 + random() % 20;
  config.max_num_seqs = 1 + random() % 16;
  config.max_num_batched_tokens = 1 + random() % 60;
  config.kv_cache_tokens = kLongest + random() % 60;
  return config;
}

TEST_P(EngineExactness, CompanyChunksPagesAndPreemptionsChangeNoBit) {
  int64_t found = 0;
  for (uint32_t seed = 10; seed < 10 + num_sweeps(12); ++seed) {
    const auto asked = requests(seed, 8);
    const Bits expected = alone(asked);
    ASSERT_EQ(generate({}, asked), expected) << "seed " << seed;
    std::mt19937 random(seed);
    for (int variant = 0; variant < 6; ++variant) {
      ASSERT_EQ(generate(random_config(random), asked), expected) << "seed " << seed;
      found += stats_.cached_prompt_tokens;
      EXPECT_LE(stats_.peak_pages, stats_.total_pages);
    }
  }
  EXPECT_GT(preemptions_, 20);  // the sweep did meet small caches
  EXPECT_GT(found, 1000);
}

/// Attention splits the keys every few hundred positions: prefixes that end on both sides of that.
TEST_P(EngineExactness, LongHistoriesShareWithoutChangingABit) {
  std::mt19937 random(7);
  std::vector<int32_t> text(700);
  for (int32_t& token : text) token = static_cast<int32_t>(random() % kVocabSize);
  std::vector<Request> asked;
  Bits expected;
  for (const size_t length : {600, 255, 256, 257, 511, 530, 600, 130}) {
    Request& r = asked.emplace_back();
    r.id = static_cast<int64_t>(asked.size());
    r.prompt.assign(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(length));
    r.prompt.push_back(static_cast<int32_t>(random() % kVocabSize));
    r.n = 2;
    r.max_new_tokens = 20;
    expected.merge(generate({}, {r}, 700));
  }
  for (int variant = 0; variant < 4; ++variant) {
    RolloutConfig config;
    config.page_size = 1 + random() % 40;
    config.max_num_batched_tokens = 50 + random() % 900;
    config.kv_cache_tokens = 700 + random() % 700;
    ASSERT_EQ(generate(config, asked, 700), expected);
    EXPECT_GT(stats_.cached_prompt_tokens, stats_.prompt_tokens / 2);
  }
}

TEST_P(EngineExactness, OrderAndDealingOverEnginesChangeNoBit) {
  for (uint32_t seed = 60; seed < 60 + num_sweeps(4); ++seed) {
    auto asked = requests(seed, 14);
    const Bits expected = generate({}, asked);
    std::mt19937 random(seed);
    std::shuffle(asked.begin(), asked.end(), random);
    for (const size_t engines : {1, 2, 3}) {
      Bits dealt;
      for (size_t rank = 0; rank < engines; ++rank) {
        std::vector<Request> share;
        for (size_t i = rank; i < asked.size(); i += engines) share.push_back(asked[i]);
        dealt.merge(generate(random_config(random), share));
      }
      ASSERT_EQ(dealt, expected) << engines << " engines, seed " << seed;
    }
  }
}

TEST_P(EngineExactness, ThreadsChangeNoBit) {
  const auto asked = requests(90, 12);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const Bits expected = generate({}, asked);
  at::set_num_threads(2);
  EXPECT_EQ(generate({}, asked), expected);
  at::set_num_threads(threads);
}

/// All responses of a request in one packed batch, as training computes them.
TEST_P(EngineExactness, LogProbsAreTheVeryBitsThatTrainingComputes) {
  for (uint32_t seed = 50; seed < 50 + num_sweeps(4); ++seed) {
    const auto asked = requests(seed, 10);
    std::mt19937 random(seed);
    Engine engine(model_.decoder(), random_config(random), {5}, kLongest);
    engine.set_token_text([](int32_t) { return std::string_view("z"); });
    const auto completions = engine.generate(asked);
    for (size_t r = 0; r < asked.size(); ++r) {
      models::ForwardBatch batch;
      std::vector<int32_t> rows, tokens;
      for (const Response& response : completions[r].responses) {
        const auto first = static_cast<int32_t>(batch.tokens.size());
        const auto prompt = static_cast<int32_t>(asked[r].prompt.size());
        batch.tokens.insert(batch.tokens.end(), asked[r].prompt.begin(), asked[r].prompt.end());
        batch.tokens.insert(batch.tokens.end(), response.tokens.begin(), response.tokens.end() - 1);
        const auto length = static_cast<int32_t>(batch.tokens.size()) - first;
        batch.segments.push_back({first, length, 0, {{first, length}}});
        for (int32_t i = 0; i < length; ++i) {
          batch.positions.push_back(i);
          batch.slots.push_back(first + i);
          if (i >= prompt - 1) rows.push_back(first + i);
        }
        tokens.insert(tokens.end(), response.tokens.begin(), response.tokens.end());
      }
      const models::LogProbs trained = model_.decoder().token_log_probs(
          model_.decoder().forward_packed(batch), rows, tokens, asked[r].sampling.temperature);
      const float* log_probs = trained.log_probs_N.const_data_ptr<float>();
      const float* entropies = trained.entropy_N.const_data_ptr<float>();
      for (const Response& response : completions[r].responses) {
        for (size_t i = 0; i < response.tokens.size(); ++i) {
          ASSERT_EQ(std::bit_cast<uint32_t>(response.log_probs[i]), std::bit_cast<uint32_t>(*log_probs++));
          ASSERT_EQ(std::bit_cast<uint32_t>(response.entropies[i]), std::bit_cast<uint32_t>(*entropies++));
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, EngineExactness, testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& info) { return info.param == at::kFloat ? "fp32" : "bf16"; });

}  // namespace
}  // namespace trireme::rollout
