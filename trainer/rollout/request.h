// What the engine is asked for and what it gives back. Torch-free.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "trainer/rollout/rollout_config.h"

namespace trireme::rollout {

/// One prompt and how to continue it. A response depends on the weights and on what stands here, and
/// on nothing else: not on the rank, the other requests, their order, or the engine's limits.
struct Request {
  int64_t id = 0;               // names the prompt in the random numbers: unique within a step
  std::vector<int32_t> prompt;  // at least one token
  int64_t n = 1;                // samples
  SamplingConfig sampling;
  bool greedy = false;  // the most likely token each time; all n samples are the same
  int64_t max_new_tokens = 1;
  uint64_t seed = 0;  // random numbers are keyed by (seed, step, id, sample, position)
  int64_t step = 0;
};

/// One sample. The three vectors have equal length.
struct Response {
  std::vector<int32_t> tokens;   // as sampled; the last one is the stop token or completes the stop string
  std::vector<float> log_probs;  // of softmax(logits / temperature) over all tokens
  std::vector<float> entropies;  // nats
  bool stopped = false;          // false: max_new_tokens were made
  int32_t stop_string = -1;      // of sampling.stop, which ended it; -1: none did
  int64_t text_length = -1;      // bytes of its text before that string
};

struct Completion {
  int64_t id = 0;
  std::vector<Response> responses;  // [n], in order of samples
};

/// Told of each response as it finishes: of which request, in the order in which they were given, and which
/// sample of it.
using OnFinished = std::function<void(size_t request, size_t sample, const Response& response)>;

}  // namespace trireme::rollout
