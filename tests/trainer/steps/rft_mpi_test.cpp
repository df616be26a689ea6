// Rejection sampling fine-tuning on two ranks as on one; what a round keeps, and what it hands on.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "runtime/base/error.h"
#include "tests/trainer/steps/small_run.h"
#include "trainer/steps/rft_step.h"

namespace trireme::steps {
namespace {

plan::RankEnv alone() {
  plan::RankEnv env;
  env.rank = 0;
  env.num_ranks = 1;
  return env;
}

// Every digit is right, so that random weights find something.
class AnyDigit final : public rewards::Reward {
 public:
  rewards::Score score(const std::string&, const std::string& response, const std::string&) const override {
    const bool right = response.find_first_of("0123456789abcdefghijklm") != std::string::npos;
    return {right ? 1.0 : 0.0, right, right};
  }
  std::string ground_truth_mistake(const std::string&, const std::string&) const override { return ""; }
};

struct RftRun : SmallRun {
  RftConfig rft;
  RftRun() {
    actor.loss.use_kl_loss = false;
    data.train_batch_size = 12;
    data.max_response_length = 40;
    rollout.n = 6;
    rft.mini_batch_size = 5;
    parallel.reduce = "exact";
    shape.initializer_range = 0.02;  // any token is as likely as the next, so that responses end
  }
};

struct Outcome {
  observe::Metrics last;
  at::Tensor masters;
  std::string kept;
};

Outcome outcome(const RftRun& run, const plan::RankEnv& env, int64_t rounds,
                std::optional<placement::RoleRanks> roles = std::nullopt) {
  SmallRank rank(run, env, roles ? *roles : everyone(env.num_ranks));
  const AnyDigit reward;
  const auto scorer = rewards::rule_scorer(reward);
  StepContext context{rank.session,    rank.stages, rank.models, *rank.tokenizer, rank.judges() ? scorer.get() : nullptr,
                      rank.problems, 1};
  RftStep step(context, run.data, run.rollout, run.rft, run.actor, [&] {
    rank.models.actor_parameters->initialize(5, 0);
    publish_actor(rank.models);
    rank.models.optimizer = std::make_unique<optim::AdamW>(*rank.models.actor_parameters, run.actor.optim);
  });
  Outcome result;
  for (int64_t i = 0; i < rounds; ++i) result.last = step.run(i, 10, i * run.data.train_batch_size);
  if (rank.models.actor_parameters) result.masters = rank.models.actor_parameters->masters().clone();
  result.kept = step.kept().to_lines();
  return result;
}

void expect_the_same(const RftRun& run, int64_t rounds) {
  const auto env = plan::RankEnv::from_environment();
  const Outcome many = outcome(run, env, rounds), one = outcome(run, alone(), rounds);
  EXPECT_EQ(many.kept, one.kept);
  EXPECT_TRUE(many.masters.equal(one.masters));
  EXPECT_GT(one.last.at("rft/kept"), 0);
  for (const char* name : {"rft/kept", "rft/accepted", "rft/solved", "rft/duplicates", "rft/dataset_size",
                           "rft/updates", "rft/learned_tokens", "critic/score/mean"})
    EXPECT_DOUBLE_EQ(many.last.at(name), one.last.at(name)) << name;
  EXPECT_NEAR(many.last.at("rft/loss"), one.last.at("rft/loss"), 1e-5);
  EXPECT_EQ(one.last.at("rft/updates"),
            run.rft.epochs *
                std::ceil(one.last.at("rft/dataset_size") / static_cast<double>(run.rft.mini_batch_size)));
}

TEST(Rft, GivesTheSameBitsOnAnyNumberOfRanks) {
  RftRun run;
  run.rft.epochs = 2;
  expect_the_same(run, 3);
}

TEST(Rft, AccumulatesAndBeginsEachRoundFromTheBase) {
  RftRun run;
  run.rft.accumulate = true;
  run.rft.start_from = "base";
  expect_the_same(run, 3);
  // Every round's responses are there, none of them twice.
  const Outcome one = outcome(run, alone(), 3), first = outcome(run, alone(), 1);
  EXPECT_TRUE(one.kept.starts_with(first.kept));
  EXPECT_GT(one.last.at("rft/dataset_size"), one.last.at("rft/kept"));
}

TEST(Rft, KeepsNoMoreOfAPromptThanAsked) {
  RftRun run;
  run.rft.keep_per_prompt = 1;
  const Outcome one = outcome(run, alone(), 1);
  EXPECT_EQ(one.last.at("rft/kept"), std::round(one.last.at("rft/solved") * 12));
}

TEST(Rft, WithNothingKeptLeavesTheWeightsAlone) {
  RftRun run;
  run.data.max_response_length = 1;  // no response comes to its end
  run.rft.start_from = "base";
  const auto env = plan::RankEnv::from_environment();
  const Outcome many = outcome(run, env, 1);
  SmallRank fresh(run, env, everyone(env.num_ranks));
  EXPECT_TRUE(many.masters.equal(fresh.models.actor_parameters->masters()));
  EXPECT_EQ(many.last.at("rft/kept"), 0);
  EXPECT_EQ(many.last.at("rft/dataset_size"), 0);
}

TEST(Rft, RolesOnRanksOfTheirOwnGiveTheColocatedResult) {
  RftRun run;
  const auto env = plan::RankEnv::from_environment();
  placement::RoleRanks apart;
  apart.rollout = {env.num_ranks - 1};
  for (int rank = 0; rank + 1 < env.num_ranks; ++rank) apart.actor.push_back(rank);
  const Outcome many = outcome(run, env, 2, apart), one = outcome(run, alone(), 2);
  EXPECT_EQ(many.kept, one.kept);
  if (!many.masters.defined()) return;
  EXPECT_TRUE(many.masters.equal(one.masters));
}

TEST(KeptSamples, AreReadAsTheyWereWritten) {
  KeptSamples kept;
  Group group;
  group.problem = 3;
  group.samples.resize(2);
  group.samples[0].tokens = {1, 2};
  group.samples[1].tokens = {7};
  kept.add(group);
  const KeptSamples read = KeptSamples::from_lines(kept.to_lines(), 4, "here");
  EXPECT_EQ(read.to_lines(), kept.to_lines());
  EXPECT_EQ(read.of(3).size(), 2u);
  EXPECT_TRUE(read.of(0).empty());
  for (const char* bad :
       {"x", "{}", R"({"problem": 4, "response": [1]})", R"({"problem": 0, "response": "a"})"})
    EXPECT_THROW(KeptSamples::from_lines(bad, 4, "here"), Error) << bad;
  EXPECT_TRUE(KeptSamples::from_lines("", 4, "here").all().empty());
}

}  // namespace
}  // namespace trireme::steps
