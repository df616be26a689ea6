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
int64_t num_ranks(const Draft& draft);

// Layouts of roles, rules_layout.cpp.
void actor_layout(Draft& draft);
void critic_layout(Draft& draft);
void inference_layout(Draft& draft);
void dtype(Draft& draft);

}  // namespace trireme::verl
