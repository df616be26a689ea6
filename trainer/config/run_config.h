// A whole run, as configs/*.toml says it: each part's own struct under its table. Torch-free, so the
// launcher checks, shows and explains it without starting a rank. Defaults stand in the structs,
// ranges and explanations in schema.cpp.
#pragma once

#include <cstdint>
#include <string>

#include "trainer/algorithms/algorithm_config.h"
#include "trainer/data/data_config.h"
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
  std::string reference;
  std::string rollout;
};

/// [ROLE.parallel] of each role.
struct ParallelConfigs {
  sharding::TrainingParallelConfig actor;
  sharding::ParallelConfig reference, rollout;
};

struct RunConfig {
  RunOptions run;
  PlacementConfig placement;
  ParallelConfigs parallel;
  models::ModelConfig model;
  data::DataConfig data;
  algorithms::AlgorithmConfig algorithm;
  steps::ActorConfig actor;
  rollout::RolloutConfig rollout;
  rewards::RewardConfig reward;
  steps::SftConfig sft;
  steps::TrainerConfig trainer;
};

/// Whether some KL needs the reference's log-probabilities.
inline bool has_reference(const RunConfig& config) {
  return config.algorithm.name != "sft" &&
         (config.actor.loss.use_kl_loss || config.algorithm.use_kl_in_reward);
}

/// Tokens of the longest prompt with its response.
inline int64_t max_model_len(const RunConfig& config) {
  return config.rollout.max_model_len > 0 ? config.rollout.max_model_len
                                          : config.data.max_prompt_length + config.data.max_response_length;
}

}  // namespace trireme::config
