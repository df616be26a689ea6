// [actor], [critic], [reward_model], [sft], [trainer]: how a step is cut and how long the run goes on. Torch-free.
#pragma once

#include <cstdint>
#include <string>

#include "trainer/losses/loss_config.h"
#include "trainer/optim/optim_config.h"

namespace trireme::steps {

struct ActorConfig {
  int64_t ppo_mini_batch_size = 0;  // prompts per optimizer update; 0: train_batch_size
  int64_t ppo_epochs = 1;
  int64_t ppo_max_token_len_per_rank = 16384;  // rows of one micro-batch
  losses::PolicyLossConfig loss;               // written as actor.clip_ratio_low, actor.kl_loss_coef, ...
  optim::OptimConfig optim;                    // [actor.optim]
};

/// [critic]: how values are learned, where the estimator asks for them.
struct CriticConfig {
  std::string path;                 // critic.model.path; empty: the weights that the actor begins with
  int64_t ppo_mini_batch_size = 0;  // prompts per optimizer update; 0: the actor's
  int64_t ppo_epochs = 0;           // 0: the actor's
  int64_t ppo_max_token_len_per_rank = 32768;  // rows of one micro-batch
  double cliprange_value = 0.5;
  std::string loss_agg_mode = "actor";  // aggregation.h; actor: actor.loss_agg_mode
  int64_t critic_warmup = 0;  // trainer.critic_warmup: the step, from 1, that first updates the actor
  optim::OptimConfig optim{.lr = 1e-5};  // [critic.optim]
};

/// The critic's settings, with the actor's where they say so.
inline CriticConfig resolved(CriticConfig critic, const ActorConfig& actor) {
  if (critic.ppo_mini_batch_size == 0) critic.ppo_mini_batch_size = actor.ppo_mini_batch_size;
  if (critic.ppo_epochs == 0) critic.ppo_epochs = actor.ppo_epochs;
  if (critic.loss_agg_mode == "actor") critic.loss_agg_mode = actor.loss.loss_agg_mode;
  return critic;
}

/// [reward_model]: a decoder with one number for a whole sequence, which it judges responses by.
struct RewardModelConfig {
  std::string path;                        // empty: there is none
  double weight = 1.0;                     // of its number in the reward
  std::string input = "auto";              // auto | tokens | text: what it reads
  int64_t max_token_len_per_rank = 32768;  // rows of one pass
};

/// [sft]: supervised fine-tuning; the whole run where algorithm.name = "sft", else a warm start.
struct SftConfig {
  bool warm_start = false;        // run it before the algorithm
  int64_t max_steps = 0;          // 0: total_epochs over the data (algorithm.name = "sft")
  int64_t train_batch_size = 32;  // examples per step
  int64_t bare_batch_size = 0;  // data.task = "arithmetic": bare expressions in each step beside the examples
  double bare_weight = 0.5;     // their share of the loss
  double stop_at_accuracy = 0.0;        // stop when greedy accuracy on training problems reaches it; 0: never
  int64_t stop_check_freq = 10;         // steps between those checks
  int64_t stop_check_from = 100;        // the first of them
  int64_t stop_check_samples = 192;     // training problems looked at
  std::string response_key = "answer";  // data files: the column to learn
  std::string messages_key = "messages";  // algorithm.name = "sft": the column of conversations
  std::string tools_key = "tools";        // the column of the tools that they may call
  int64_t max_length = 0;  // tokens of an example; 0: data.max_prompt_length + data.max_response_length
  std::string truncation = "error";  // of longer ones: error | left | right
  optim::OptimConfig optim;          // [sft.optim]
};

/// [rft]: rejection sampling fine-tuning, in rounds of data.train_batch_size prompts. rollout.n responses
/// each, [actor.optim] and actor.ppo_max_token_len_per_rank are as in reinforcement learning.
struct RftConfig {
  int64_t keep_per_prompt = 4;         // accepted responses of a prompt that a round keeps; 0: all
  bool dedup = true;                   // the same response once
  bool accumulate = false;             // learn from all rounds' responses, not the last round's alone
  std::string start_from = "current";  // current | base: what a round fine-tunes
  int64_t epochs = 1;                  // over the kept responses, in each round
  int64_t mini_batch_size = 64;        // responses per optimizer update; 0: all
};

struct TrainerConfig {
  int64_t total_epochs = 1;
  int64_t total_training_steps = 0;  // 0: total_epochs over the training data
  int64_t test_freq = -1;            // steps between evaluations; -1: only before and after
  int64_t save_freq = -1;            // steps between checkpoints; -1: only at the end
  bool val_before_train = true;
  int64_t log_val_generations = -1;  // problems of an evaluation whose samples are kept; -1: all
  int64_t max_checkpoints_to_keep = 0;  // 0: all
  std::string resume = "auto";          // auto | never | a checkpoint's folder
};

}  // namespace trireme::steps
