// [actor], [sft], [trainer]: how a step is cut and how long the run goes on. Torch-free.
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
  optim::OptimConfig optim;             // [sft.optim]
};

struct TrainerConfig {
  int64_t total_epochs = 1;
  int64_t total_training_steps = 0;  // 0: total_epochs over the training data
  int64_t test_freq = -1;            // steps between evaluations; -1: only before and after
  int64_t save_freq = -1;            // steps between checkpoints; -1: only at the end
  bool val_before_train = true;
  int64_t max_checkpoints_to_keep = 0;  // 0: all
  std::string resume = "auto";          // auto | never | a checkpoint's folder
};

}  // namespace trireme::steps
