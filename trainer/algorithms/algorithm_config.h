// [algorithm]: how a run trains, and the constants between a score and an advantage. Torch-free.
#pragma once

#include <cstdint>
#include <string>

#include "trainer/losses/preference_config.h"

namespace trireme::algorithms {

/// [algorithm.kl_ctrl]: the weight of the KL that is taken off the reward.
struct KlControl {
  std::string type = "fixed";  // fixed | adaptive
  double kl_coef = 0.001;      // adaptive: the first one
  double horizon = 10000;      // responses
  double target_kl = 0.1;      // nats per token
};

/// [algorithm.filter_groups]: prompts whose responses are all judged alike teach nothing, and are replaced.
struct FilterGroups {
  bool enable = false;
  std::string metric = "acc";       // acc | score | seq_reward | seq_final_reward
  int64_t max_num_gen_batches = 0;  // 0: any number
};

/// [algorithm.overlong_buffer]: responses that come near the longest allowed lose reward.
struct OverlongBuffer {
  bool enable = false;
  int64_t len = 0;              // tokens before data.max_response_length where it begins
  double penalty_factor = 1.0;  // what a response of the longest length loses
};

/// [algorithm.rollout_correction]: for rollout that does not sample from the very policy that is trained.
struct RolloutCorrection {
  std::string rollout_is = "auto";      // auto | none | token | sequence
  double rollout_is_threshold = 2.0;    // greater weights become this ...
  double rollout_is_threshold_low = 0;  // ... or, where this is above 0, weights outside both become 0
  std::string rollout_rs;               // which responses or tokens are left out, "token_k1,seq_mean_k3"
  std::string rollout_rs_threshold;     // for each of them, "0.5_2.0,0.01"
  bool bypass_mode = false;             // rollout's log-probabilities are taken for the old policy's
  bool weighs() const { return rollout_is == "token" || rollout_is == "sequence"; }
  bool is_on() const { return weighs() || !rollout_rs.empty(); }
};


struct AlgorithmConfig {
  std::string name = "rl";              // rl | grpo (rl with adv_estimator = "grpo") | sft | dpo
  std::string adv_estimator = "grpo";   // estimators.h
  bool norm_adv_by_std_in_grpo = true;  // grpo, grpo_passk
  double gamma = 1.0;                   // reinforce_plus_plus, gae
  double lam = 1.0;                     // gae
  bool use_kl_in_reward = false;
  std::string kl_penalty = "kl";  // kl_penalty.h
  KlControl kl_ctrl;
  FilterGroups filter_groups;
  OverlongBuffer overlong_buffer;
  RolloutCorrection rollout_correction;
  losses::PreferenceLossConfig dpo;  // [algorithm.dpo]
};

/// With the weights that rollout_is = "auto" means: of tokens where rollout is ahead of training, and its
/// policy not taken for the old one.
inline AlgorithmConfig resolved(AlgorithmConfig config, bool rollout_is_ahead) {
  RolloutCorrection& correction = config.rollout_correction;
  if (correction.rollout_is == "auto")
    correction.rollout_is = rollout_is_ahead && !correction.bypass_mode ? "token" : "none";
  return config;
}

}  // namespace trireme::algorithms
