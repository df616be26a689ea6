// A reward model's numbers: transformers' own (tools/make_goldens/reward_model.py), the same on any ranks, in any
// passes and beside anything, and what steps make of them.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>

#include <ATen/TensorOperators.h>

#include "runtime/base/error.h"
#include "tests/trainer/steps/small_run.h"
#include "tests/trainer/steps/whole_masters.h"
#include "trainer/chat/chat_template.h"
#include "trainer/steps/reward_model.h"
#include "trainer/steps/rft_step.h"
#include "trainer/weights/tensors.h"

namespace trireme::steps {
namespace {

using placement::Role;

const std::vector<int> kAll{0, 1, 2, 3};

plan::RankEnv alone() {
  plan::RankEnv env;
  env.rank = 0;
  env.num_ranks = 1;
  return env;
}

std::string golden(const std::string& name) {
  const char* root = std::getenv("TRIREME_SOURCE_DIR");
  return std::string(root ? root : ".") + "/tests/trainer/steps/goldens-reward-model/" + name;
}

struct Where {
  std::vector<int> others = kAll, judges = kAll;
  placement::ReplicaAxes axes = {};
  int64_t max_rows = 150;
};

placement::RoleRanks roles_of(const Where& where, bool critic = false) {
  placement::RoleRanks roles;
  roles.actor = roles.rollout = roles.reference = where.others;
  if (critic) roles.critic = where.others;
  roles.reward_model = where.judges;
  roles.axes.reward_model = where.axes;
  return roles;
}

// With a reward model that reads the policy's tokens.
struct JudgingRank : SmallRank {
  RewardModelInput input;

  JudgingRank(const SmallRun& run, const plan::RankEnv& env, const placement::RoleRanks& roles,
              const std::string& family = "qwen2", int64_t max_rows = 150)
      : SmallRank(run, env, roles) {
    const auto shape = models::DecoderShape::from_folder(golden(family), models::Head::value);
    add_reward_model(models, shape, golden(family), session);
    input.pad = 256;
    input.max_length = shape.max_position_embeddings;
    input.max_rows = max_rows;
    input.weight = 0.5;
    context.reward_input = &input;
  }
};

SmallRun without_reference() {
  SmallRun run;
  run.actor.loss.use_kl_loss = false;
  return run;
}

std::vector<std::vector<double>> judged(JudgingRank& rank, std::vector<Group> groups) {
  if (!rank.session.has(Role::rollout)) groups.clear();
  ModelJudging judging(rank.context, rank.problems.train);
  StepMetrics metrics;
  judging.send(groups);
  if (rank.session.has(Role::reward_model)) judging.judge(metrics);
  judging.bring_back(groups);
  std::vector<std::vector<double>> numbers;
  for (const Group& group : groups)
    for (auto& of_group = numbers.emplace_back(); const Sample& sample : group.samples)
      of_group.push_back(sample.model_score);
  return numbers;
}

struct Expected {
  std::vector<Group> groups;  // of the sequences that begin alike
  std::vector<double> scores;
};

Expected expected_of(const std::string& family) {
  const auto file = weights::read_tensors(golden(family) + "/expected.safetensors");
  const at::Tensor tokens = file.at("tokens"), lengths = file.at("lengths"), scores = file.at("scores");
  Expected result;
  const auto* next = tokens.const_data_ptr<int32_t>();
  constexpr int64_t kPrompts[] = {7, 40, 1, 64};  // as the maker has them
  for (int64_t i = 0; i < lengths.numel(); ++i) {
    const int64_t prompt = kPrompts[i / 2], length = lengths.const_data_ptr<int32_t>()[i];
    if (i % 2 == 0) {
      Group& group = result.groups.emplace_back();
      group.id = i;
      group.prompt.assign(next, next + prompt);
    }
    result.groups.back().samples.emplace_back().tokens.assign(next + prompt, next + length);
    next += length;
    result.scores.push_back(scores.const_data_ptr<float>()[i]);
  }
  return result;
}

TEST(RewardModel, ScoresAreThoseOfTransformersInAnyPasses) {
  for (const char* family : {"qwen2", "qwen3", "llama"}) {
    const Expected expected = expected_of(family);
    std::vector<double> first;
    for (const int64_t max_rows : {100000, 60, 1}) {
      JudgingRank rank(without_reference(), alone(), roles_of({{0}, {0}}), family, max_rows);
      std::vector<double> numbers;
      for (const auto& of_group : judged(rank, expected.groups))
        numbers.insert(numbers.end(), of_group.begin(), of_group.end());
      ASSERT_EQ(numbers.size(), expected.scores.size());
      // fp32 on both sides, summed in other orders.
      for (size_t i = 0; i < numbers.size(); ++i)
        EXPECT_NEAR(numbers[i], expected.scores[i], 1e-5 * (1 + std::abs(expected.scores[i]))) << family << i;
      if (first.empty()) first = numbers;
      EXPECT_EQ(numbers, first) << family << ", " << max_rows << " rows";
    }
  }
}

struct Result {
  at::Tensor actor;
  std::vector<observe::Metrics> metrics;
};

Result train(const SmallRun& run, const plan::RankEnv& env, const placement::RoleRanks& roles,
             int64_t max_rows = 150, double weight = 0.5) {
  JudgingRank rank(run, env, roles, "qwen2", max_rows);
  rank.input.weight = weight;
  OnlineStep online(rank.context, run.data, run.rollout, run.algorithm, run.actor, run.critic);
  Result result;
  for (int64_t step = 0; step < 2; ++step)
    result.metrics.push_back(online.run(step, 10, step * run.data.train_batch_size));
  result.actor = whole_masters(rank.models.actor_parameters.get(), run.shape, rank.session.world());
  return result;
}

SmallRun exact_run() {
  SmallRun run;
  run.parallel.reduce = "exact";
  return run;
}

TEST(RewardModel, PlacementsAndLayoutsGiveTheSameWeightsBitForBit) {
  const SmallRun run = exact_run();
  const Result one = train(run, alone(), roles_of({{0}, {0}}));
  const std::map<std::string, Where> placements{
      {"shared", {}},
      {"separate", {{0, 1}, {2, 3}}},
      {"overlapping", {{0, 1, 2}, {2, 3}}},
      {"one rank", {kAll, {1}}},
      {"passes of one sequence", {kAll, {2, 3}, {}, 1}},
      {"two stages", {{0, 1}, {2, 3}, {.pp = 2}}},
      {"sequences over two ranks", {kAll, kAll, {.cp = 2}, 80}},
  };
  for (const auto& [name, where] : placements) {
    const Result result = train(run, plan::RankEnv::from_environment(), roles_of(where), where.max_rows);
    EXPECT_TRUE(result.actor.equal(one.actor)) << name;
    for (size_t step = 0; step < 2; ++step) {
      EXPECT_EQ(result.metrics[step].at("reward/model/max"), one.metrics[step].at("reward/model/max")) << name;
      EXPECT_NEAR(result.metrics[step].at("reward/model/mean"), one.metrics[step].at("reward/model/mean"), 1e-12)
          << name;
    }
  }
}

TEST(RewardModel, TensorParallelRanksComeToTheSameNumbersToRounding) {
  const Expected expected = expected_of("qwen2");
  JudgingRank rank(without_reference(), plan::RankEnv::from_environment(), roles_of({kAll, kAll, {.tp = 2}}));
  // Each replica of rollout brings groups of its own: here the first one alone has some.
  const auto numbers =
      judged(rank, rank.session.place_in(Role::rollout).d == 0 ? expected.groups : std::vector<Group>{});
  if (rank.session.rank() != 0) return;
  for (size_t i = 0; i < expected.scores.size(); ++i)
    EXPECT_NEAR(numbers[i / 2][i % 2], expected.scores[i], 1e-5 * (1 + std::abs(expected.scores[i])));
}

TEST(RewardModel, ItsNumberIsAddedByItsWeight) {
  const SmallRun run = exact_run();
  const auto step = [&](double weight) {
    return train(run, alone(), roles_of({{0}, {0}}), 150, weight).metrics[0];
  };
  observe::Metrics none = step(0), some = step(0.25);
  EXPECT_GT(std::abs(some.at("reward/model/mean")), 1e-3);
  EXPECT_LT(some.at("reward/model/min"), some.at("reward/model/max"));
  EXPECT_NEAR(some.at("critic/score/mean"),
              none.at("critic/score/mean") + 0.25 * some.at("reward/model/mean"), 1e-9);
  EXPECT_EQ(some.at("reward/model/mean"), none.at("reward/model/mean"));
}

TEST(RewardModel, PpoRemaxAndDynamicSamplingAreTheSameApartAndTogether) {
  const std::map<std::string, std::function<void(SmallRun&)>> kinds{
      {"gae",
       [](SmallRun& run) {
         run.algorithm.adv_estimator = "gae";
         run.critic_parallel.reduce = "exact";
         run.critic.optim.lr = 1e-3;
       }},
      {"remax", [](SmallRun& run) { run.algorithm.adv_estimator = "remax"; }},
      {"filter", [](SmallRun& run) { run.algorithm.filter_groups = {true, "score", 0}; }}};
  for (const auto& [name, change] : kinds) {
    SmallRun run = exact_run();
    change(run);
    const bool critic = name == "gae";
    const Result one = train(run, alone(), roles_of({{0}, {0}}, critic));
    const Result apart =
        train(run, plan::RankEnv::from_environment(), roles_of({{0, 1}, {2, 3}}, critic));
    EXPECT_TRUE(apart.actor.equal(one.actor)) << name;
  }
}

// A step ahead it judges on rollout's side, on ranks that generate or on others: the same numbers and weights.
TEST(RewardModel, JudgesTheNextBatchWhileThisOneIsLearnedFrom) {
  for (const char* estimator : {"grpo", "remax"}) {
    SmallRun run = exact_run();
    run.rollout.steps_ahead = 1;
    run.algorithm.adv_estimator = estimator;
    const auto roles = [](std::vector<int> rollout, std::vector<int> judges) {
      placement::RoleRanks where;
      where.actor = {0, 1};
      where.reference = {1};
      where.rollout = std::move(rollout);
      where.reward_model = std::move(judges);
      return where;
    };
    const auto env = plan::RankEnv::from_environment();
    const Result beside = train(run, env, roles({2}, {3})), on_one = train(run, env, roles({2, 3}, {2})),
                 on_all = train(run, env, roles({2, 3}, {2, 3}));
    EXPECT_TRUE(beside.actor.equal(on_one.actor)) << estimator;
    EXPECT_TRUE(beside.actor.equal(on_all.actor)) << estimator;
    for (const Result* result : {&beside, &on_one, &on_all}) {
      ASSERT_EQ(result->metrics.size(), beside.metrics.size());
      EXPECT_EQ(result->metrics[1].at("reward/model/max"), beside.metrics[1].at("reward/model/max"));
      EXPECT_NEAR(result->metrics[1].at("critic/score/mean"), beside.metrics[1].at("critic/score/mean"), 1e-12);
    }
    // Rollout by the step's own weights makes other responses.
    run.rollout.steps_ahead = 0;
    const Result synchronous = train(run, env, roles({2}, {3}));
    EXPECT_FALSE(synchronous.actor.equal(beside.actor));
    EXPECT_TRUE(synchronous.actor.equal(train(run, env, roles_of({})).actor)) << estimator;
  }
}

// The greedy response is judged as the others are: where all responses are greedy, no advantage is left.
TEST(RewardModel, RemaxTakesOffWhatTheModelSaysOfTheGreedyResponse) {
  SmallRun run = exact_run();
  run.algorithm.adv_estimator = "remax";
  run.actor.loss.use_kl_loss = false;
  run.rollout.sampling.top_k = 1;
  const Result result = train(run, alone(), roles_of({{0}, {0}}));
  EXPECT_EQ(result.metrics[0].at("critic/advantages/max"), 0.0);
  EXPECT_EQ(result.metrics[0].at("critic/advantages/min"), 0.0);
  EXPECT_NEAR(result.metrics[0].at("critic/greedy_score/mean"), result.metrics[0].at("critic/score/mean"), 1e-9);
}

TEST(RewardModel, RejectionSamplingKeepsThoseThatItLikesBest) {
  SmallRun run = without_reference();
  run.parallel.reduce = "exact";
  run.shape.initializer_range = 0.02;  // any token is as likely as the next, so that responses end
  run.data.max_response_length = 60;
  run.rollout.n = 8;
  RftConfig rft;
  rft.keep_per_prompt = 1;
  const auto kept = [&](const plan::RankEnv& env, const placement::RoleRanks& roles, double weight) {
    JudgingRank rank(run, env, roles);
    rank.input.weight = weight;
    rank.input.alone = true;
    const auto nothing = rewards::make_reward({.name = "none"});
    const auto scorer = rewards::rule_scorer(*nothing);
    if (rank.context.scorer) rank.context.scorer = scorer.get();
    RftStep step(rank.context, run.data, run.rollout, rft, run.actor, [] {});
    const observe::Metrics metrics = step.run(0, 10, 0);
    EXPECT_GT(metrics.at("rft/kept"), 0);
    return step.kept().to_lines();
  };
  const std::string one = kept(alone(), roles_of({{0}, {0}}), 1.0);
  EXPECT_EQ(one, kept(plan::RankEnv::from_environment(), roles_of({{0, 1}, {2, 3}}), 1.0));
  EXPECT_NE(one, kept(alone(), roles_of({{0}, {0}}), -1.0));
}

TEST(RewardModel, TextsAreReadInItsOwnWords) {
  JudgingRank rank(without_reference(), alone(), roles_of({{0}, {0}}));
  Group group;
  group.problem = 3;
  group.prompt = rank.problems.train[3].prompt_ids;
  const auto tokenizer = text::Tokenizer::bytes();
  for (const std::string response : {"= 5", "no idea"}) {
    auto tokens = tokenizer->encode(response);
    tokens.push_back(tokenizer->eos_id());
    group.samples.emplace_back().tokens = std::move(tokens);
  }
  rank.input.max_length = 40;
  rank.input.reader = data::OtherReader{
      tokenizer,
      std::make_shared<chat::ChatTemplate>(
          "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}", chat::Json::object(), "template")};
  const auto texts = judged(rank, {group});
  // The same written out, as tokens; the end of what is too long.
  Group written;
  for (const std::string response : {"= 5", "no idea"}) {
    const std::string text = "<user>" + rank.problems.train[3].prompt + "<assistant>" + response;
    auto tokens = tokenizer->encode(text);
    ASSERT_GT(tokens.size(), 40U);
    tokens.erase(tokens.begin(), tokens.end() - 40);
    written.samples.emplace_back().tokens = std::move(tokens);
  }
  rank.input.reader.reset();
  EXPECT_EQ(texts, judged(rank, {written}));
}

TEST(RewardModel, AFolderWithoutAHeadIsRefused) {
  SmallRank rank(without_reference(), alone(), roles_of({{0}, {0}}));
  const char* root = std::getenv("TRIREME_SOURCE_DIR");
  const std::string decoder =
      std::string(root ? root : ".") + "/tests/trainer/weights/goldens-decoder/qwen2-group7-tied";
  try {
    add_reward_model(rank.models, models::DecoderShape::from_folder(decoder, models::Head::value), decoder,
                     rank.session);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_config);
    EXPECT_NE(std::string(error.what()).find("no score.weight"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace trireme::steps
