// What a plan comes to: the memory of each phase on the ranks that hold most, room for keys and values, time
// and what it is made of. Torch-free.
#pragma once

#include <string>
#include <vector>

#include "trainer/costs/job.h"
#include "trainer/costs/step_time.h"

namespace trireme::costs {

/// Ranks that have the same roles.
struct RankMemory {
  int64_t first = 0, end = 0;
  struct Part {
    std::string name;  // "actor state", "KV cache", ...
    int64_t bytes;
  };
  std::vector<Part> held;    // from step to step
  std::vector<Part> phases;  // what each stage needs beside it
  int64_t held_bytes() const;
  int64_t peak_bytes() const;
  const Part* worst_phase() const;  // null where there is none
};

struct Outcome {
  std::vector<RankMemory> memory;
  int64_t device_bytes = 0;  // of a device
  bool fits = false;
  std::string why_not;      // names the ranks, the phase and what lacks
  int64_t kv_tokens = 0;    // on a rollout rank
  int64_t kv_wanted = 0;    // that max_num_seqs full sequences need
  int64_t kv_most = 0;      // that fit beside everything else
  double decode_slots = 0;  // sequences of mean length at a time on a replica
  StepTime time;
  double tokens_per_second = 0;  // of all ranks, prompts and responses
  double device_hours = 0;       // of a step
  struct Idle {
    std::string cause;
    double share;  // of all ranks' time in a step
  };
  std::vector<Idle> idle;
};

/// Bytes of a device that are neither tensors nor free: runtime, libraries, what an allocator cannot use.
int64_t reserved_bytes(const Job& job);
Outcome outcome_of(const Job& job);
/// The largest actor.ppo_max_token_len_per_rank with which everything fits, at most `most`; 0 if none does.
int64_t largest_micro_tokens(Job job, int64_t most = 1 << 20);

}  // namespace trireme::costs
