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
  double min_p = 0.0;             // of the likeliest token's probability; 0: off
  std::vector<std::string> stop;  // texts that end a response
};

struct RolloutConfig {
  int64_t n = 1;                          // samples per prompt
  // Batches that are generated before their step: 0, or on ranks of its own rollout answers the prompts of
  // the next steps while this one learns.
  int64_t steps_ahead = 0;
  // On ranks of its own rollout sends each mini-batch to training as soon as it is finished.
  bool stream = false;
  SamplingConfig sampling;                // written as rollout.temperature, rollout.top_k, ...
  int64_t max_model_len = 0;              // tokens of a prompt and its response; 0: as data allows
  int64_t max_num_seqs = 256;             // sequences decoded together on one rank
  int64_t max_num_batched_tokens = 8192;  // rows of one forward
  int64_t page_size = 16;                 // tokens per page of the KV cache
  // The KV cache on one rank, in tokens or else in GiB. With neither there is room for max_num_seqs sequences
  // of max_model_len tokens, as far as rollout's share of the device's memory goes. kv_budget.h
  int64_t kv_cache_tokens = 0;
  double kv_cache_memory_gb = 0;
  double gpu_memory_utilization = 0.5;
  bool free_cache_engine = false;  // the KV cache's memory is given back between generations
};

}  // namespace trireme::rollout
