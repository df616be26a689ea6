// How large the KV cache is, worked out before it is made.
//
// The first of these that is set decides: rollout.kv_cache_tokens; rollout.kv_cache_memory_gb; else as much
// as max_num_seqs sequences of full length need, but no more than rollout.gpu_memory_utilization of this
// rank's share of the device's memory leaves beside what is in use, or will be.
// Torch-free: the launcher says it before anything is started.
#pragma once

#include <cstdint>
#include <string>

#include "trainer/costs/device_memory.h"
#include "trainer/rollout/rollout_config.h"

namespace trireme::costs {

struct KvBudget {
  int64_t pages = 0;
  int64_t page_size = 0;           // tokens
  int64_t bytes = 0;               // of keys and values, all layers
  int64_t sequences = 0;           // of max_model_len tokens that fit at one time
  int64_t max_model_len = 0;       // tokens
  bool limited_by_memory = false;  // fewer than max_num_seqs sequences, because of the device's memory

  int64_t tokens() const { return pages * page_size; }
  /// "KV cache: 40960 tokens in 2560 pages, 0.31 GiB, room for 128 sequences of 320 tokens"
  std::string text() const;
};

/// Throws invalid_config naming every setting that is out of range, or the one that leaves no room for a
/// sequence of max_model_len tokens.
KvBudget plan_kv_cache(const rollout::RolloutConfig& config, int64_t max_model_len, int64_t bytes_per_token,
                       const DeviceMemory& memory);

}  // namespace trireme::costs
