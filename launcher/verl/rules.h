// What takes several of verl's keys together, or counts in other units than ours.
#pragma once

#include <string>
#include <vector>

#include "launcher/verl/draft.h"

namespace trireme::verl {

struct Rule {
  std::vector<std::string> keys;  // verl's, all of which it decides
  std::vector<std::string> to;    // ours, that it may set
  void (*apply)(Draft&);
};
const std::vector<Rule>& rules();

/// Whether verl would have a critic.
bool has_critic(const Draft& draft);
/// Those that train; rollout's too, unless it has ranks of its own.
int64_t num_ranks(const Draft& draft);
/// Ranks that verl's one-step-off trainer gives to rollout alone; 0: it is where training is.
int64_t rollout_ranks(const Draft& draft);

// Layouts of roles, rules_layout.cpp.
void actor_layout(Draft& draft);
void critic_layout(Draft& draft);
void inference_layout(Draft& draft);
void rollout_apart(Draft& draft);
void dtype(Draft& draft);
// Rewards, rules_reward.cpp.
void reward_model(Draft& draft);
void reward_rule(Draft& draft);
/// How many ranks share out each sequence of a role.
int64_t sequence_ranks(const Draft& draft, const std::string& role);

}  // namespace trireme::verl
