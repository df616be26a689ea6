// [rollout]: how responses are generated. Torch-free.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme::rollout {

struct SamplingConfig {
  double temperature = 1.0;
  int64_t top_k = -1;  // -1: all
  double top_p = 1.0;
};

struct RolloutConfig {
  int64_t n = 1;                          // samples per prompt
  SamplingConfig sampling;                // written as rollout.temperature, rollout.top_k, rollout.top_p
  int64_t max_num_seqs = 256;             // sequences decoded together on one rank
  int64_t max_num_batched_tokens = 8192;  // rows of one forward
  int64_t page_size = 16;                 // tokens per page of the KV cache
  int64_t kv_cache_tokens = 0;            // 0: enough for max_num_seqs sequences of full length
};

}  // namespace trireme::rollout
