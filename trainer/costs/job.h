// A run as far as a plan goes: roles on ranks in layouts, what a step works on, and a machine. Torch-free.
#pragma once

#include <array>
#include <string>

#include "trainer/costs/constants.h"
#include "trainer/costs/layout.h"
#include "trainer/costs/machine.h"
#include "trainer/costs/model_shape.h"

namespace trireme::costs {

enum class PlannedRole { actor, critic, reference, rollout, reward_model };
inline constexpr std::array<PlannedRole, 5> kPlannedRoles{PlannedRole::actor, PlannedRole::critic,
                                                          PlannedRole::reference, PlannedRole::rollout,
                                                          PlannedRole::reward_model};
const char* to_string(PlannedRole role);

/// Ranks [first, first + layout.ranks()); absent where it is off.
struct RoleJob {
  bool present = false;
  int64_t first = 0;
  Layout layout;
  int64_t end() const { return first + layout.ranks(); }
  bool has(int64_t rank) const { return present && rank >= first && rank < end(); }
};

/// One step.
struct Workload {
  double prompts = 1024, samples = 1;  // of each prompt
  double prompt_tokens = 256;          // mean
  double response_tokens = 512;        // mean
  double response_limit = 1024;
  double updates = 1;  // of the actor, epochs included
  double critic_updates = 1;
  double epochs = 1;           // passes over the batch
  bool old_log_prob = false;   // computed by the actor once more
  bool shares_prompts = true;  // training computes a prompt once for all of its samples
  double sequences() const { return prompts * samples; }
  /// Rows of a training pass over the whole batch.
  double rows() const {
    return (shares_prompts ? prompts : sequences()) * prompt_tokens + sequences() * response_tokens;
  }
};

struct RolloutLimits {
  int64_t max_num_seqs = 256, max_num_batched_tokens = 8192, page_size = 16, max_model_len = 1536;
  int64_t kv_cache_tokens = 0;
  double kv_cache_memory_gb = 0, gpu_memory_utilization = 0.5;
  bool free_cache_engine = false;  // the cache is there in "gen" alone
};

struct Job {
  ModelShape model, critic_model, reward_model;
  Machine machine;
  Target target;
  std::array<RoleJob, kPlannedRoles.size()> roles;
  Workload work;
  RolloutLimits limits;
  // On ranks of its own rollout makes the next step's responses meanwhile; or training takes a mini-batch at a
  // time of those that it makes.
  bool steps_ahead = false, stream = false;
  Constants constants;

  RoleJob& role(PlannedRole which) { return roles[static_cast<size_t>(which)]; }
  const RoleJob& role(PlannedRole which) const { return roles[static_cast<size_t>(which)]; }
  int64_t ranks() const;
  /// Rollout reads the actor's weights in their place.
  bool shares_weights() const;
};

}  // namespace trireme::costs
