// What a step works on: one prompt and its sampled responses, with everything that the stages find out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme::steps {

struct Sample {
  std::vector<int32_t> tokens;           // the response; ends with the stop token if it stopped
  std::vector<float> rollout_log_probs;  // as the sampler saw them, one a token
  std::vector<float> old_log_probs;      // of the weights before this step's updates; empty: not computed
  std::vector<float> ref_log_probs;      // of the reference; empty: no reference
  double model_score = 0.0;              // the reward model's; 0 where there is none
  double score = 0.0;  // the reward function's and the model's by their weights, less what overlong ones lose
  double reward = 0.0;                   // the score less KL in the reward
  // One a token, each of them empty until it is known.
  std::vector<float> values;  // the critic's, of before this step's updates
  std::vector<float> advantages;
  std::vector<float> returns;     // what values shall become
  std::vector<float> importance;  // rollout correction's weights; empty: 1
  std::vector<uint8_t> mask;      // 0: rollout correction has rejected it, it is not learned from; empty: 1
  bool correct = false;
  bool stopped = false;  // false: cut off at max_response_length

  int64_t length() const { return static_cast<int64_t>(tokens.size()); }
  bool counts(int64_t t) const { return mask.empty() || mask[static_cast<size_t>(t)] != 0; }
  /// Tokens that are learned from.
  int64_t counted() const;
  /// Of the weights before this step's updates, whether computed again or recorded by the sampler.
  const std::vector<float>& before_updates() const {
    return old_log_probs.empty() ? rollout_log_probs : old_log_probs;
  }
};

struct Group {
  int64_t id = 0;       // place in the step's batch
  int64_t problem = 0;  // place among the training problems
  std::vector<int32_t> prompt;
  double greedy_score = 0.0;  // of the greedy response, where the estimator wants it
  std::vector<Sample> samples;

  /// Rows of a forward pass, the prompt taken once.
  int64_t num_rows() const;
  /// What its forward and backward pass cost, in tokens' worth: for balance.
  int64_t cost() const;
};

/// One message per group, for the exchange between ranks; unpack(pack(g)) == g.
std::string pack(const Group& group);
/// Throws corrupt_data on anything that pack did not make.
Group unpack(const std::string& bytes);
/// Of several messages, one behind the other. Likewise.
std::vector<Group> unpack_all(const std::string& bytes);

}  // namespace trireme::steps
