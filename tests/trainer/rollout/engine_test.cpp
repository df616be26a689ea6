// The engine on a tiny random decoder, against an oracle without cache, batch or scheduler: the packed
// forward of one whole history for each token.
#include "trainer/rollout/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "runtime/base/error.h"
#include "trainer/rollout/philox.h"

namespace trireme::rollout {
namespace {

models::DecoderShape tiny_shape(int64_t vocab_size) {
  models::DecoderShape shape;
  shape.vocab_size = vocab_size;
  shape.hidden_size = 32;
  shape.intermediate_size = 64;
  shape.num_hidden_layers = 2;
  shape.num_attention_heads = 4;
  shape.num_key_value_heads = 2;
  shape.head_dim = 8;
  shape.max_position_embeddings = 128;
  shape.initializer_range = 0.4;  // wide enough that the next token depends on the history
  return shape;
}

class Model {
 public:
  explicit Model(int64_t vocab_size = 97)
      : shape_(tiny_shape(vocab_size)),
        parameters_(models::parameter_specs(shape_), at::Device(at::kCPU)),
        decoder_(shape_, parameters_, at::kFloat) {
    parameters_.initialize(3, shape_);
    decoder_.refresh();
  }
  const models::Decoder& decoder() const { return decoder_; }
  models::ParameterSet& parameters() { return parameters_; }

  models::ForwardBatch history(const std::vector<int32_t>& tokens) const {
    models::ForwardBatch batch;
    const auto length = static_cast<int32_t>(tokens.size());
    batch.tokens = tokens;
    batch.positions.resize(length);
    std::iota(batch.positions.begin(), batch.positions.end(), 0);
    batch.slots = batch.positions;
    batch.segments.push_back({0, length, 0, {{0, length}}});
    return batch;
  }

  /// One response, token by token, in fp64 from the logits of the packed forward.
  std::vector<int32_t> expected_tokens(const Request& request, int64_t sample,
                                       const std::set<int32_t>& stop) const {
    std::vector<int32_t> tokens = request.prompt, response;
    while (static_cast<int64_t>(response.size()) < request.max_new_tokens) {
      const models::ForwardBatch batch = history(tokens);
      const std::vector<int32_t> last = {static_cast<int32_t>(tokens.size()) - 1};
      const at::Tensor logits = decoder_.logits(decoder_.forward_packed(batch), last).contiguous();
      const float* x = logits.const_data_ptr<float>();
      const double u = sampling_uniform(sampling_key(request.seed, request.step), request.id, sample,
                                        static_cast<int64_t>(response.size()));
      response.push_back(request.greedy ? argmax(x) : draw(x, request.sampling.temperature, u));
      if (stop.count(response.back())) break;
      tokens.push_back(response.back());
    }
    return response;
  }

 private:
  int32_t argmax(const float* x) const {
    return static_cast<int32_t>(std::max_element(x, x + shape_.vocab_size) - x);
  }
  int32_t draw(const float* x, double temperature, double uniform) const {
    const double most = x[argmax(x)];
    double total = 0;
    for (int64_t i = 0; i < shape_.vocab_size; ++i) total += std::exp((x[i] - most) / temperature);
    double left = uniform * total;
    for (int32_t i = 0; i < shape_.vocab_size; ++i) {
      left -= std::exp((x[i] - most) / temperature);
      if (left < 0) return i;
    }
    return static_cast<int32_t>(shape_.vocab_size) - 1;
  }

  models::DecoderShape shape_;
  models::ParameterSet parameters_;
  models::Decoder decoder_;
};

std::vector<Request> random_requests(uint32_t seed, int count, int64_t vocab_size = 97) {
  std::mt19937 random(seed);
  std::vector<Request> requests(count);
  for (int r = 0; r < count; ++r) {
    requests[r].id = 1000 + r;
    requests[r].seed = seed;
    requests[r].step = 4;
    requests[r].n = 1 + random() % 4;
    requests[r].greedy = random() % 4 == 0;
    requests[r].sampling.temperature = random() % 2 ? 1.0 : 0.7;
    requests[r].max_new_tokens = 1 + random() % 14;
    requests[r].prompt.resize(1 + random() % 30);
    for (int32_t& token : requests[r].prompt) token = static_cast<int32_t>(random() % vocab_size);
  }
  return requests;
}

using Tokens = std::map<std::pair<int64_t, size_t>, std::vector<int32_t>>;  // (id, sample) -> tokens

Tokens tokens_of(const std::vector<Completion>& completions) {
  Tokens out;
  for (const Completion& c : completions) {
    for (size_t j = 0; j < c.responses.size(); ++j) out[{c.id, j}] = c.responses[j].tokens;
  }
  return out;
}

TEST(Engine, MakesTheTokensOfARecomputationOfEveryHistory) {
  const Model model;
  const auto requests = random_requests(1, 12);
  Engine engine(model.decoder(), {}, {5, 60}, 64);
  const auto completions = engine.generate(requests);
  ASSERT_EQ(completions.size(), requests.size());
  for (size_t r = 0; r < requests.size(); ++r) {
    ASSERT_EQ(completions[r].id, requests[r].id);
    ASSERT_EQ(completions[r].responses.size(), static_cast<size_t>(requests[r].n));
    for (int64_t j = 0; j < requests[r].n; ++j) {
      const Response& response = completions[r].responses[j];
      EXPECT_EQ(response.tokens, model.expected_tokens(requests[r], j, {5, 60})) << r << " " << j;
      EXPECT_EQ(response.stopped, response.tokens.back() == 5 || response.tokens.back() == 60);
    }
  }
}

TEST(Engine, LimitsPoolsAndPagesChangeNoToken) {
  const Model model;
  int64_t preemptions = 0;
  for (uint32_t seed = 10; seed < 25; ++seed) {
    const auto requests = random_requests(seed, 8);
    Engine roomy(model.decoder(), {}, {5}, 64);
    const auto expected = roomy.generate(requests);
    std::mt19937 random(seed);
    for (int variant = 0; variant < 6; ++variant) {
      RolloutConfig config;
      config.page_size = 1 + random() % 20;
      config.max_num_seqs = 1 + random() % 16;
      config.max_num_batched_tokens = 1 + random() % 60;
      config.kv_cache_tokens = 44 + random() % 60;
      Engine engine(model.decoder(), config, {5}, 64);
      const auto completions = engine.generate(requests);
      ASSERT_EQ(tokens_of(completions), tokens_of(expected)) << "seed " << seed;
      for (size_t r = 0; r < requests.size(); ++r) {
        for (size_t j = 0; j < completions[r].responses.size(); ++j) {
          const Response &a = completions[r].responses[j], &b = expected[r].responses[j];
          for (size_t i = 0; i < a.tokens.size(); ++i) {
            // Matrix products round differently for different numbers of rows.
            ASSERT_NEAR(a.log_probs[i], b.log_probs[i], 1e-4);
            ASSERT_NEAR(a.entropies[i], b.entropies[i], 1e-4);
          }
        }
      }
      const EngineStats stats = engine.take_stats();
      EXPECT_LE(stats.peak_pages, stats.total_pages);
      preemptions += stats.preemptions;
    }
  }
  EXPECT_GT(preemptions, 20);
}

TEST(Engine, OrderAndSplitOverEnginesChangeNoToken) {
  const Model model;
  auto requests = random_requests(40, 14);
  Engine one(model.decoder(), {}, {5}, 64);
  const Tokens expected = tokens_of(one.generate(requests));

  std::shuffle(requests.begin(), requests.end(), std::mt19937(7));
  EXPECT_EQ(tokens_of(one.generate(requests)), expected);

  RolloutConfig small;
  small.max_num_seqs = 3;
  Engine other(model.decoder(), small, {5}, 64);
  const size_t half = requests.size() / 3;
  Tokens split = tokens_of(one.generate({requests.begin(), requests.begin() + half}));
  split.merge(tokens_of(other.generate({requests.begin() + half, requests.end()})));
  EXPECT_EQ(split, expected);
}

/// The largest difference between what the engine recorded and what the loss computes.
float difference_to_the_loss(const Model& model, int64_t vocab_size) {
  auto requests = random_requests(50, 10, vocab_size);
  for (Request& r : requests) {
    r.sampling.top_k = 20;  // does not touch the recorded log-probability
    r.sampling.top_p = 0.9;
  }
  Engine engine(model.decoder(), {}, {5}, 64);
  const auto completions = engine.generate(requests);
  float largest = 0;
  for (size_t r = 0; r < requests.size(); ++r) {
    for (const Response& response : completions[r].responses) {
      std::vector<int32_t> tokens = requests[r].prompt;
      tokens.insert(tokens.end(), response.tokens.begin(), response.tokens.end());
      std::vector<int32_t> rows(response.tokens.size());
      std::iota(rows.begin(), rows.end(), static_cast<int32_t>(requests[r].prompt.size()) - 1);
      const auto batch = model.history(tokens);
      const auto expected = model.decoder().token_log_probs(
          model.decoder().forward_packed(batch), rows, response.tokens, requests[r].sampling.temperature);
      for (size_t i = 0; i < rows.size(); ++i) {
        const float log_prob = expected.log_probs_N.const_data_ptr<float>()[i];
        const float entropy = expected.entropy_N.const_data_ptr<float>()[i];
        largest = std::max(largest, std::abs(response.log_probs[i] - log_prob));
        largest = std::max(largest, std::abs(response.entropies[i] - entropy));
      }
    }
  }
  return largest;
}

TEST(Engine, LogProbsAreThoseOfThePackedForward) {
  for (const int64_t vocab_size : {64, 259}) {
    // The matrix library may round differently for different numbers of rows.
    EXPECT_LT(difference_to_the_loss(Model(vocab_size), vocab_size), 1e-4f);
  }
}

TEST(Engine, LogProbsAreTheVeryBitsOfTheLossWhereMatrixProductsAllow) {
  const Model model(259);
  const auto alone = model.decoder().forward_packed(model.history({7}));
  const auto among_others = model.decoder().forward_packed(model.history(std::vector<int32_t>(40, 7)));
  const size_t bytes = 32 * sizeof(float);
  if (std::memcmp(alone.const_data_ptr(), among_others.const_data_ptr(), bytes) != 0) {
    GTEST_SKIP()
        << "the matrix library rounds one row differently from 40 (for Intel MKL, MKL_CBWR=AVX2,STRICT "
           "makes them equal)";
  }
  EXPECT_EQ(difference_to_the_loss(model, 259), 0.0f);
}

TEST(Engine, SamplesDifferAndSeedsAndStepsMatter) {
  const Model model;
  Request request{.id = 1, .prompt = {1, 2, 3}, .n = 6, .max_new_tokens = 12, .seed = 8};
  Engine engine(model.decoder(), {}, {}, 64);
  const auto generate = [&](Request r) { return engine.generate({std::move(r)})[0].responses; };
  const auto first = generate(request);
  std::set<std::vector<int32_t>> different;
  for (const Response& response : first) {
    EXPECT_EQ(response.tokens.size(), 12u);
    EXPECT_FALSE(response.stopped);
    different.insert(response.tokens);
  }
  EXPECT_EQ(different.size(), 6u);

  const auto changed = [&](auto change) {
    Request r = request;
    change(r);
    return generate(r)[0].tokens != first[0].tokens;
  };
  EXPECT_FALSE(changed([](Request&) {}));
  EXPECT_FALSE(changed([](Request& r) { r.n = 1; }));
  EXPECT_TRUE(changed([](Request& r) { r.seed = 9; }));
  EXPECT_TRUE(changed([](Request& r) { r.step = 1; }));
  EXPECT_TRUE(changed([](Request& r) { r.id = 2; }));
}

TEST(Engine, ForgetsNothingOldWhenWeightsChange) {
  Model model;
  Request request{.id = 1, .prompt = {1, 2, 3}, .greedy = true, .max_new_tokens = 20};
  Engine engine(model.decoder(), {}, {}, 64);
  const auto before = engine.generate({request})[0].responses[0].tokens;
  model.parameters().initialize(99, tiny_shape(97));
  const_cast<models::Decoder&>(model.decoder()).refresh();
  const auto after = engine.generate({request})[0].responses[0].tokens;
  EXPECT_NE(after, before);
  EXPECT_EQ(after, model.expected_tokens(request, 0, {}));
}

TEST(Engine, CountsTokensStepsAndPages) {
  const Model model;
  RolloutConfig config;
  config.kv_cache_tokens = 320;
  Engine engine(model.decoder(), config, {}, 64);
  std::vector<int64_t> finished;
  engine.generate({{.id = 7, .prompt = std::vector<int32_t>(20, 3), .n = 4, .max_new_tokens = 10},
                   {.id = 8, .prompt = {1, 2}, .n = 1, .max_new_tokens = 3}},
                  [&](const Completion& c) { finished.push_back(c.id); });
  EXPECT_EQ(finished, (std::vector<int64_t>{8, 7}));
  const EngineStats stats = engine.take_stats();
  EXPECT_EQ(stats.prompt_tokens, 82);
  EXPECT_EQ(stats.cached_prompt_tokens, 60);
  EXPECT_EQ(stats.generated_tokens, 43);
  EXPECT_EQ(stats.steps, 10);
  EXPECT_EQ(stats.preemptions, 0);
  EXPECT_EQ(stats.recomputed_tokens, 0);
  EXPECT_EQ(stats.total_pages, 20);
  EXPECT_EQ(stats.peak_pages, 2 + 3 + 1);
  EXPECT_EQ(engine.take_stats().generated_tokens, 0);
  EXPECT_TRUE(engine.generate({}).empty());
}

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_config);
    return error.message();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

TEST(Engine, NamesEveryRequestThatItCannotServe) {
  const Model model;
  RolloutConfig config;
  config.kv_cache_tokens = 32;
  Engine engine(model.decoder(), config, {}, 64);
  const std::string message = message_of([&] {
    engine.generate({{.id = 1, .prompt = {}},
                     {.id = 2, .prompt = {97}},
                     {.id = 3, .prompt = {1}, .n = 0},
                     {.id = 4, .prompt = {1}, .max_new_tokens = 64},
                     {.id = 5, .prompt = {1}, .max_new_tokens = 40},
                     {.id = 6, .prompt = {1}, .sampling = {.temperature = -1, .top_p = 0}},
                     {.id = 7, .prompt = {1}, .max_new_tokens = 0}});
  });
  for (const char* part :
       {"request 1: has an empty prompt", "request 2: has token 97", "request 3: asks for n = 0",
        "request 4: may grow to 1 + 64 tokens, but max_model_len is 64",
        "request 5: may need 40 tokens in the KV cache, but it holds 32: raise "
        "rollout.kv_cache_tokens to at least 40",
        "request 6: has temperature -1", "request 6: has top_p 0", "request 7: has max_new_tokens = 0"}) {
    EXPECT_NE(message.find(part), std::string::npos) << part << "\nnot in\n" << message;
  }
  // 32 tokens is the most that fits, and it does.
  EXPECT_EQ(engine.generate({{.id = 1, .prompt = {1}, .max_new_tokens = 32}})[0].responses[0].tokens.size(),
            32u);
}

TEST(Engine, NamesEverySettingOutOfRange) {
  const Model model;
  const RolloutConfig config{
      .max_num_seqs = 0, .max_num_batched_tokens = -1, .page_size = 0, .kv_cache_tokens = -5};
  const std::string message = message_of([&] { Engine(model.decoder(), config, {}, 0); });
  for (const char* key :
       {"max_num_seqs", "max_num_batched_tokens", "page_size", "kv_cache_tokens", "max_model_len"}) {
    EXPECT_NE(message.find(key), std::string::npos) << key;
  }
  EXPECT_NE(message_of([&] { Engine(model.decoder(), {.max_num_seqs = 1 << 30}, {}, 64); }).find("2^31"),
            std::string::npos);
}

TEST(Engine, SaysSoWhenTheLogitsAreNotNumbers) {
  Model model;
  model.parameters().flat().fill_(std::nanf(""));
  const_cast<models::Decoder&>(model.decoder()).refresh();
  Engine engine(model.decoder(), {}, {}, 64);
  try {
    engine.generate({{.id = 31, .prompt = {1}}});
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("request 31"), std::string::npos) << error.message();
  }
}

}  // namespace
}  // namespace trireme::rollout
