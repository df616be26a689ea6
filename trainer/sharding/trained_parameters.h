// The weights of a model that is trained, on one of the ranks that train it: what the decoder computes with,
// and this rank's part of the fp32 masters, their gradient and, in the optimizer, their state.
//
// tp ranks hold different slices (models/tensor_parallel.h). dp ranks hold the same slices, and share out
// more of them the higher the stage (ZeRO, arXiv:1910.02054): a block's parameters lie end to end, padded,
// and are cut into dp equal parts.
//
//   stage  weights          gradient           masters, optimizer
//   0      all              all, all-reduce    all
//   1      all              all, then a part   a part
//   2      all              a part             a part
//   3      a part           a part             a part
//
// In stages 2 and 3 a layer's whole gradient exists from the moment that the backward pass comes to it until
// it has been reduced, and in stage 3 a layer's weights while it computes and while the one before it does.
// The first and the last block (embedding, final norm, head) are there throughout a step.
//
// Gradients over dp are summed in rank order (fast: the same bits for the same ranks), or exactly: the same
// bits for any number of dp ranks, if what is passed to backward() is the same and end_backward() stands
// behind each (exact_sum.h).
#pragma once

#include <memory>
#include <vector>

#include "runtime/comm/communicator.h"
#include "trainer/models/decoder.h"
#include "trainer/sharding/exact_sum.h"
#include "trainer/sharding/sharding_config.h"

namespace trireme::sharding {

struct TrainingRanks {
  comm::Communicator* dp = nullptr;  // null: one rank
  models::TensorParallel tp;
};

/// Elements [begin, end) of a parameter's slice, which lie in the masters from `at` on.
struct Stretch {
  size_t parameter = 0;
  int64_t begin = 0, end = 0, at = 0;
  int64_t numel() const { return end - begin; }
};

class TrainedParameters : public models::BlockResidency {
 public:
  /// Stages above 0 need more than one dp rank to differ from it. Values are undefined until masters() are
  /// filled and publish() was called.
  TrainedParameters(const models::DecoderShape& shape, at::Device device, at::ScalarType compute_dtype,
                    int zero_stage, bool exact, const TrainingRanks& ranks);

  /// The set to make the decoder of; then attach() that decoder. `packed` as Decoder takes it.
  models::ParameterSet& weights() { return weights_; }
  const models::ParameterSet& weights() const { return weights_; }
  bool holds_whole_weights() const { return stage_ < 3; }
  void attach(models::Decoder& decoder);

  const TrainingRanks& ranks() const { return ranks_; }
  int zero_stage() const { return stage_; }
  bool is_exact() const { return exact_; }

  /// Flat fp32, of this rank; in stages 1 to 3 with padding that stays zero.
  at::Tensor& masters() { return masters_; }
  const at::Tensor& masters() const { return masters_; }
  at::Tensor& gradient() { return gradient_; }
  const at::Tensor& gradient() const { return gradient_; }
  /// In order: where what lies in them. Between stretches there is only padding.
  const std::vector<Stretch>& stretches() const { return stretches_; }
  /// Where a block begins in the masters.
  int64_t block_begin(int block) const { return block_begins_[block]; }

  /// Masters from a seed (ParameterSet::initialize). Local.
  void initialize(uint64_t seed, double embedding_std);

  // Collective over dp and tp, all ranks in the same order:

  /// Brings the masters' present values to where the decoder reads them, on all ranks.
  void publish();

  // An update: begin_update(), then backward() and end_backward() for each of this rank's micro-batches
  // (those of a tp group are the same), then sum_gradient(). In stages 2 and 3 a rank with fewer
  // micro-batches than another dp rank takes part in that one's passes there, with nothing of its own.

  void begin_update(size_t micro_batches);
  void end_backward();
  /// gradient() becomes that of all ranks together; returns its norm over the whole model. Not finite if some
  /// gradient was not.
  double sum_gradient();

  // Forward passes alone, with no graph, stand between these two.
  void begin_forwards(size_t passes);
  void end_forwards();

  // For the decoder.
  void before_forward(int block) override;
  void after_forward(int block) override;
  void before_backward(int block) override;
  void after_backward(int block) override;

 private:
  bool is_sharded() const { return stage_ > 0; }
  int last_block() const { return weights_.num_blocks() - 1; }
  at::Tensor part_of(const at::Tensor& flat, int block) const;
  void lay_out();
  int64_t missing(size_t passes) const;
  void pass_forward_empty();
  void start_gather(int block);
  void finish_gather(int block);
  void drop(int block);
  void start_reduce(int block);
  void finish_reduce();
  void reduce_exactly(int block);
  void sum_over_dp();
  void sum_over_tp();
  double norm() const;
  double exact_norm() const;

  models::DecoderShape shape_;
  int stage_;
  bool exact_;
  TrainingRanks ranks_;
  models::ParameterSet weights_;
  models::Decoder* decoder_ = nullptr;
  at::Tensor masters_, gradient_;
  std::vector<Stretch> stretches_;
  std::vector<int64_t> block_begins_, cuts_;  // in the masters; elements of each block that a rank has

  std::vector<ExactSum> exact_sums_;  // by block
  int64_t missing_ = 0;               // passes that other dp ranks have more
  // Under way.
  struct Gather {
    at::Tensor part;
    comm::WorkHandle work;
    bool there = false;
  };
  std::vector<Gather> gathers_;
  struct Reduce {
    int block = -1;
    at::Tensor part;
    comm::WorkHandle work;
  } reduce_;
};

/// Throws internal, naming the ranks, unless all ranks of `group` hold the same bits. Collective over:
/// `group`.
void check_replicas(const at::Tensor& values, comm::Communicator& group);

}  // namespace trireme::sharding
