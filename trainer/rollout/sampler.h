// Chooses tokens from one row of logits. The choice is a function of the row, the sampling settings
// and one uniform number, so it does not depend on what else is in the batch. Torch-free.
//
// Legend: V vocab_size.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "trainer/models/softmax_merge.h"
#include "trainer/rollout/rollout_config.h"

namespace trireme::rollout {

/// log_prob and entropy are the same bits that the loss computes from the same logits on the CPU.
struct SampledToken {
  int32_t token = 0;
  float log_prob = 0;  // of softmax(logits / temperature) over all V tokens, before any is ruled out
  float entropy = 0;   // of the same distribution, nats
};

/// One row at a time: load() it, then draw() as often as there are samples. Not thread-safe.
class Sampler {
 public:
  explicit Sampler(int64_t vocab_size) : Sampler(std::vector<int64_t>{vocab_size}) {}
  /// Of a vocabulary that tensor-parallel ranks share in pieces: log-probabilities are brought together from
  /// the pieces' own, as the loss does it.
  explicit Sampler(const std::vector<int64_t>& pieces);

  /// Divides logits_V, fp32 [V], by the temperature in place and borrows it until the next load().
  /// Min-p keeps tokens of at least that share of the likeliest one's probability, top-k the k largest logits
  /// (and any that equal the k-th); of what both leave, top-p keeps the smallest set of the largest that
  /// holds p of their mass (equal logits: the lower id first). Greedy, or temperature 0: the largest logit,
  /// of equal ones the lowest id; temperature 0 stands for 1 in log_prob and entropy. Returns false if a
  /// logit is not finite.
  [[nodiscard]] bool load(float* logits_V, const SamplingConfig& sampling, bool greedy);

  /// `uniform` in [0, 1) picks the token at which the cumulated probability, in order of ids, passes it.
  SampledToken draw(double uniform) const;

 private:
  static constexpr int64_t kChunk = 64;
  struct Candidate {
    float logit;
    int32_t token;
    float weight;
  };
  struct Chunk {
    const float* logits;  // [kChunk]; -inf past the vocabulary's end
    float* weights;       // [kChunk]; 0 there
  };
  struct Intervals;
  Chunk chunk_at(size_t chunk);
  void weigh();
  float kth_largest(int64_t k);
  int64_t rule_out(float least, float lightest);
  void keep_most_likely(const SamplingConfig& sampling);
  void keep_nucleus(double share, int64_t count);
  void keep_above(const Intervals& intervals, int32_t last);
  int32_t choose(double uniform) const;

  std::vector<int64_t> pieces_;
  int64_t vocab_size_;
  std::vector<models::RowStats> stats_;      // of the pieces
  const float* logits_ = nullptr;            // divided by the temperature
  std::array<float, kChunk> last_logits_{};  // of the last chunk
  bool greedy_ = false;
  float max_logit_ = 0, log_sum_exp_ = 0, entropy_ = 0;
  double total_ = 0;  // of weights_
  std::vector<float>
      weights_;  // [V, padded] exp(logit - max); 0 of what is ruled out, but in chunks of total 0
  std::vector<double> chunk_totals_;           // of weights_, chunk by chunk
  std::vector<float> chunk_maxima_, largest_;  // of top-k
  std::vector<Candidate> near_;                // of top-p: those among which the nucleus ends
};

}  // namespace trireme::rollout
