#include "launcher/verl/rows.h"

namespace trireme::verl {
namespace table {

Row maps(std::string key, std::string to, std::string verl_default, Names names, std::string text) {
  return {std::move(key),
          Fate::mapped,
          std::move(to),
          std::move(text),
          std::move(names),
          std::move(verl_default),
          {}};
}

Row same(std::string key, std::string verl_default, Names names, std::string text) {
  static const std::string prefix = "actor_rollout_ref.";
  std::string to = key.rfind(prefix, 0) == 0 ? key.substr(prefix.size()) : key;
  return maps(std::move(key), std::move(to), std::move(verl_default), std::move(names), std::move(text));
}

Row needless(std::string key, std::string why) {
  return {std::move(key), Fate::needless, {}, std::move(why), {}, {}, {}};
}

Row unsupported(std::string key, std::vector<std::string> off, std::string what_to_do) {
  return {std::move(key), Fate::unsupported, {}, std::move(what_to_do), {}, {}, std::move(off)};
}

}  // namespace table

const std::vector<Row>& rows() {
  static const std::vector<Row> all = [] {
    std::vector<Row> rows;
    table::add_data(rows);
    table::add_model(rows);
    table::add_actor(rows);
    table::add_reference(rows);
    table::add_rollout(rows);
    table::add_critic(rows);
    table::add_algorithm(rows);
    table::add_reward(rows);
    table::add_trainer(rows);
    table::add_engines(rows);
    return rows;
  }();
  return all;
}

const Row* find_row(const std::string& key) {
  const Row* best = nullptr;
  size_t best_length = 0;
  for (const Row& row : rows()) {
    if (row.key == key) return &row;
    if (row.key.back() != '*') continue;
    if (row.key.compare(0, row.key.size() - 2, key) == 0) return &row;  // the table itself, empty
    const size_t length = row.key.size() - 1;                           // of what stands before the *
    if (length > best_length && key.compare(0, length, row.key, 0, length) == 0) {
      best = &row;
      best_length = length;
    }
  }
  return best;
}

const std::vector<Switch>& switches() {
  static const std::vector<Switch> all{
      {"actor_rollout_ref.rollout.multi_turn.",
       "actor_rollout_ref.rollout.multi_turn.enable",
       {"False"},
       "several turns are off (multi_turn.enable)"},
      {"actor_rollout_ref.model.lora_",
       "actor_rollout_ref.model.lora_rank",
       {"0"},
       "LoRA is off (lora_rank)"},
      {"actor_rollout_ref.model.target_modules",
       "actor_rollout_ref.model.lora_rank",
       {"0"},
       "LoRA is off (lora_rank)"},
      {"actor_rollout_ref.model.exclude_modules",
       "actor_rollout_ref.model.lora_rank",
       {"0"},
       "LoRA is off (lora_rank)"},
      {"actor_rollout_ref.model.lora.",
       "actor_rollout_ref.model.lora.rank",
       {"0"},
       "LoRA is off (lora.rank)"},
      {"actor_rollout_ref.model.mtp.", "actor_rollout_ref.model.mtp.enable", {"False"}, "MTP is off"},
      {"actor_rollout_ref.rollout.mtp.", "actor_rollout_ref.model.mtp.enable", {"False"}, "MTP is off"},
      {"actor_rollout_ref.model.tiled_mlp.",
       "actor_rollout_ref.model.tiled_mlp.enabled",
       {"False"},
       "the tiled MLP is off"},
      {"actor_rollout_ref.actor.router_replay.",
       "actor_rollout_ref.actor.router_replay.mode",
       {"disabled"},
       "the replay of routes is off"},
      {"actor_rollout_ref.ref.router_replay.",
       "actor_rollout_ref.ref.router_replay.mode",
       {"disabled"},
       "the replay of routes is off"},
      {"critic.", "critic.enable", {"False"}, "there is no critic (critic.enable)"},
      {"trainer.critic_warmup", "critic.enable", {"False"}, "there is no critic (critic.enable)"},
      {"critic.model.lora.", "critic.model.lora.rank", {"0"}, "LoRA is off (lora.rank)"},
      {"critic.model.lora_", "critic.model.lora_rank", {"0"}, "LoRA is off (lora_rank)"},
      {"critic.model.target_modules", "critic.model.lora_rank", {"0"}, "LoRA is off (lora_rank)"},
      {"reward_model.model.", "reward_model.enable", {"False"}, "no reward model (reward_model.enable)"},
      {"reward_model.rollout.", "reward_model.enable", {"False"}, "no reward model (reward_model.enable)"},
      {"reward.reward_model.",
       "reward.reward_model.enable",
       {"False"},
       "no reward model (reward.reward_model.enable)"},
      {"algorithm.pf_ppo.", "algorithm.use_pf_ppo", {"False"}, "PF-PPO is off (use_pf_ppo)"},
      {"transfer_queue.", "transfer_queue.enable", {"False"}, "the transfer queue is off"},
  };
  return all;
}

}  // namespace trireme::verl
