// The engine on a tiny random decoder, against an oracle without cache, batch or scheduler: the packed
// forward of one whole history for each token.
#include "trainer/rollout/engine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include "runtime/base/error.h"
#include "tests/trainer/rollout/tiny_model.h"

namespace trireme::rollout {
namespace {

TEST(Engine, MakesTheTokensOfARecomputationOfEveryHistory) {
  const TinyModel model;
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

TEST(Engine, SamplesDifferAndSeedsAndStepsMatter) {
  const TinyModel model;
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
  TinyModel model;
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
  const TinyModel model;
  RolloutConfig config;
  config.kv_cache_tokens = 320;
  Engine engine(model.decoder(), config, {}, 64);
  std::vector<int64_t> finished;
  int64_t signs_of_life = 0;
  engine.set_sign_of_life([&] { ++signs_of_life; });
  engine.generate({{.id = 7, .prompt = std::vector<int32_t>(20, 3), .n = 4, .max_new_tokens = 10},
                   {.id = 8, .prompt = {1, 2}, .n = 1, .max_new_tokens = 3}},
                  [&](size_t request, size_t sample, const Response& response) {
                    finished.push_back(static_cast<int64_t>(10 * request + sample));
                    EXPECT_EQ(response.tokens.size(), request == 0 ? 10u : 3u);
                  });
  EXPECT_EQ(finished, (std::vector<int64_t>{10, 0, 1, 2, 3}));
  const EngineStats stats = engine.take_stats();
  EXPECT_EQ(stats.prompt_tokens, 82);
  EXPECT_EQ(stats.cached_prompt_tokens, 60);
  EXPECT_EQ(stats.generated_tokens, 43);
  EXPECT_EQ(stats.steps, 10);
  EXPECT_EQ(signs_of_life, 10);
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
  const TinyModel model;
  RolloutConfig config;
  config.kv_cache_tokens = 64;
  Engine engine(model.decoder(), config, {}, 64);
  const std::string message = message_of([&] {
    engine.generate({{.id = 1, .prompt = {}},
                     {.id = 2, .prompt = {97}},
                     {.id = 3, .prompt = {1}, .n = 0},
                     {.id = 4, .prompt = {1}, .max_new_tokens = 64},
                     {.id = 5, .prompt = {1}, .sampling = {.min_p = 1.5, .stop = {"", "x"}}},
                     {.id = 6, .prompt = {1}, .sampling = {.temperature = -1, .top_p = 0}},
                     {.id = 7, .prompt = {1}, .max_new_tokens = 0}});
  });
  for (const char* part :
       {"request 1: has an empty prompt", "request 2: has token 97", "request 3: asks for n = 0",
        "request 4: may grow to 1 + 64 tokens, but max_model_len is 64", "request 5: has min_p 1.5",
        "request 5: has an empty stop string", "request 5: has stop strings, but this engine does not know",
        "request 6: has temperature -1", "request 6: has top_p 0", "request 7: has max_new_tokens = 0"}) {
    EXPECT_NE(message.find(part), std::string::npos) << part << "\nnot in\n" << message;
  }
  // 64 tokens is the most that fits, and it does.
  EXPECT_EQ(engine.generate({{.id = 1, .prompt = {1}, .max_new_tokens = 63}})[0].responses[0].tokens.size(),
            63u);
}

TEST(Engine, NamesEverySettingOutOfRange) {
  const TinyModel model;
  const RolloutConfig config{
      .max_num_seqs = 0, .max_num_batched_tokens = -1, .page_size = 0, .kv_cache_tokens = -5};
  const std::string message = message_of([&] { Engine(model.decoder(), config, {}, 0); });
  for (const char* key :
       {"max_num_seqs", "max_num_batched_tokens", "page_size", "kv_cache_tokens", "max_model_len"}) {
    EXPECT_NE(message.find(key), std::string::npos) << key;
  }
  EXPECT_NE(message_of([&] {
              Engine(model.decoder(), {.kv_cache_tokens = int64_t{1} << 40}, {}, 64);
            }).find("2^31"),
            std::string::npos);
}

TEST(Engine, SaysSoWhenTheLogitsAreNotNumbers) {
  TinyModel model;
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
