// A whole run, as configs/*.toml says it: each part's own struct under its table. Torch-free, so the
// launcher checks, shows and explains it without starting a rank. Defaults stand in the structs,
// ranges and explanations in schema.cpp.
#pragma once

#include <cstdint>
#include <string>

#include "trainer/algorithms/algorithm_config.h"
#include "trainer/algorithms/estimator_config.h"
#include "trainer/data/data_config.h"
#include "trainer/evaluation/evaluation_config.h"
#include "trainer/memory/offload_config.h"
#include "trainer/models/model_config.h"
#include "trainer/rewards/reward_config.h"
#include "trainer/rollout/rollout_config.h"
#include "trainer/sharding/sharding_config.h"
#include "trainer/steps/step_config.h"

namespace trireme::config {

struct RunOptions {
  std::string name;                 // of the run's folder; empty: the configuration file's name
  std::string output_dir = "runs";  // run folders go here
  uint64_t seed = 0;
  int64_t ranks = 0;               // 0: one per GPU; without a GPU, 1
  int64_t threads_per_rank = 0;    // 0: this machine's cores, shared out evenly
  std::string device = "auto";     // auto | cpu | cuda
  std::string log_level = "info";  // debug | info | warn | error
};

/// [placement]: ranks of each role, "0-3,6"; empty: all ranks.
struct PlacementConfig {
  std::string actor;
  std::string critic;
  std::string reference;
  std::string rollout;
  std::string reward_model;
};

/// [ROLE.parallel] of each role.
struct ParallelConfigs {
  sharding::TrainingParallelConfig actor, critic;
  sharding::ParallelConfig reference, rollout, reward_model;
};

struct RunConfig {
  RunOptions run;
  PlacementConfig placement;
  ParallelConfigs parallel;
  models::ModelConfig model;
  data::DataConfig data;
  algorithms::AlgorithmConfig algorithm;
  steps::ActorConfig actor;
  steps::CriticConfig critic;
  rollout::RolloutConfig rollout;
  evaluation::ValidationConfig validation;
  rewards::RewardConfig reward;
  steps::RewardModelConfig reward_model;
  steps::SftConfig sft;
  steps::RftConfig rft;
  steps::TrainerConfig trainer;
  memory::OffloadConfig offload;  // written as actor.param_offload, model.enable_activation_offload, ...
};

/// Whether the algorithm is reinforcement learning by advantages, so that [algorithm] and the loss in [actor]
/// say how.
inline bool uses_policy_gradient(const RunConfig& config) {
  return config.algorithm.name == "rl" || config.algorithm.name == "grpo";
}

inline bool is_dpo(const RunConfig& config) {
  return config.algorithm.name == "dpo";
}

/// Whether answers are generated and judged by a reward, if only for evaluation. Preference files say nothing
/// that a reward could compare with.
inline bool has_rollout(const RunConfig& config) {
  return !is_dpo(config) || config.data.task == "arithmetic";
}

/// Whether some KL, or DPO, needs the reference's log-probabilities.
inline bool has_reference(const RunConfig& config) {
  if (is_dpo(config)) return !config.algorithm.dpo.reference_free;
  return uses_policy_gradient(config) && (config.actor.loss.use_kl_loss || config.algorithm.use_kl_in_reward);
}

/// Whether the estimator needs a critic's values.
inline bool has_critic(const RunConfig& config) {
  return config.algorithm.name == "rl" && algorithms::needs_of(config.algorithm.adv_estimator).values;
}

/// Whether answers are compared with nothing: no rule, and no code of the user's.
inline bool judges_nothing(const RunConfig& config) {
  const rewards::RewardConfig& reward = config.reward;
  return reward.name == "none" && reward.function.path.empty() && reward.command.empty() &&
         reward.http.url.empty();
}

/// Whether a model judges responses, beside a rule or alone.
inline bool has_reward_model(const RunConfig& config) {
  return !config.reward_model.path.empty() && (uses_policy_gradient(config) || config.algorithm.name == "rft");
}

/// Tokens of the longest prompt with its response.
inline int64_t max_model_len(const RunConfig& config) {
  return config.rollout.max_model_len > 0 ? config.rollout.max_model_len
                                          : config.data.max_prompt_length + config.data.max_response_length;
}

/// Tokens of the longest example of supervised fine-tuning.
inline int64_t max_example_length(const RunConfig& config) {
  return config.sft.max_length > 0 ? config.sft.max_length
                                   : config.data.max_prompt_length + config.data.max_response_length;
}

}  // namespace trireme::config
