// A small run for tests: arithmetic, a tiny decoder, any number of ranks.
#pragma once

#include <memory>

#include "runtime/pipeline/stage.h"
#include "runtime/session/session.h"
#include "trainer/data/learned_tokens.h"
#include "trainer/data/problem_set.h"
#include "trainer/data/prompt_tokens.h"
#include "trainer/rewards/scorer.h"
#include "trainer/steps/online_step.h"
#include "trainer/steps/sft_step.h"
#include "trainer/steps/step_context.h"

namespace trireme::steps {

struct SmallRun {
  data::DataConfig data;
  rollout::RolloutConfig rollout;
  algorithms::AlgorithmConfig algorithm;
  ActorConfig actor;
  CriticConfig critic;
  SftConfig sft;
  sharding::TrainingParallelConfig parallel, critic_parallel;  // the actor's first; tp stands in the roles
  models::DecoderShape shape;

  SmallRun() {
    data.task = "arithmetic";
    data.train_batch_size = 6;
    data.max_prompt_length = 64;
    data.max_response_length = 9;
    data.arithmetic.num_val = 16;
    rollout.n = 3;
    actor.loss.use_kl_loss = true;
    actor.loss.kl_loss_coef = 0.1;
    actor.ppo_max_token_len_per_rank = 150;
    actor.optim.lr = 1e-3;
    actor.optim.grad_clip = 0;  // leaves the gradient as it was summed
    sft.train_batch_size = 7;
    sft.bare_batch_size = 5;
    sft.optim.lr = 1e-3;
    sft.optim.grad_clip = 0;
    shape.vocab_size = 259;
    shape.hidden_size = 32;
    shape.intermediate_size = 48;
    shape.num_hidden_layers = 2;
    shape.num_attention_heads = 4;
    shape.num_key_value_heads = 2;
    shape.head_dim = 8;
    shape.max_position_embeddings = 128;
    shape.initializer_range = 0.2;
  }
};

// Everything one rank needs, with random weights; the reference differs from the actor.
struct SmallRank {
  session::Session session;
  pipeline::StageRunner stages;
  std::shared_ptr<const text::Tokenizer> tokenizer = text::Tokenizer::bytes();
  data::ProblemSet problems;
  std::unique_ptr<rewards::Reward> reward;
  std::unique_ptr<rewards::Scorer> scorer;
  RoleModels models;
  StepContext context;

  SmallRank(const SmallRun& run, const plan::RankEnv& env, const placement::RoleRanks& roles,
            at::ScalarType dtype = at::kFloat, pipeline::StageRunner::Observer observer = {})
      : session(env, roles, comm::Device::cpu),
        stages(session.world(), std::move(observer)),
        problems(data::load_problems(run.data, {"response"}, 1)),
        // Any whole number at the end has the form, so that rewards differ before anything is learned.
        reward(
            rewards::make_reward({.name = "exact_match", .correct = 1.0, .format_only = 0.5, .wrong = 0.0})),
        scorer(rewards::rule_scorer(*reward)),
        models(make_role_models(run.shape, dtype, at::kCPU, session, run.parallel, run.rollout,
                                tokenizer->stop_ids(), 128)),
        context{session, stages, models, *tokenizer, judges() ? scorer.get() : nullptr, problems, 1} {
    if (!roles.critic.empty()) {
      models::DecoderShape shape = run.shape;
      shape.head = models::Head::value;
      add_critic(models, shape, session, run.critic_parallel, run.critic.optim);
      if (models.critic) {
        models.critic_parameters->initialize(7, 0);
        models.critic_parameters->publish();
      }
    }
    if (models.rollout_parameters) models.rollout_parameters->initialize(5, run.shape);
    if (models.reference_parameters) models.reference_parameters->initialize(6, run.shape);
    if (models.actor) {
      models.actor_parameters->initialize(5, 0);
      models.optimizer = std::make_unique<optim::AdamW>(*models.actor_parameters, run.actor.optim);
      publish_actor(models);
    }
    if (models.reference) models.reference->refresh();
    if (models.rollout_decoder) models.rollout_decoder->refresh();
    for (auto* list : {&problems.train, &problems.val, &problems.bare})
      data::encode_prompts(*list, *tokenizer, run.data);
    for (auto* list : {&problems.train, &problems.val, &problems.bare})
      data::encode_learned(*list, *tokenizer, nullptr, {128, "error"});
  }

  bool judges() {
    return session.has(placement::Role::rollout) && session.speaks_for_replica(placement::Role::rollout);
  }
};

inline placement::RoleRanks everyone(int num_ranks, bool critic = false) {
  placement::RoleRanks roles;
  for (int rank = 0; rank < num_ranks; ++rank) {
    roles.actor.push_back(rank);
    if (critic) roles.critic.push_back(rank);
    roles.reference.push_back(rank);
    roles.rollout.push_back(rank);
  }
  return roles;
}

}  // namespace trireme::steps
