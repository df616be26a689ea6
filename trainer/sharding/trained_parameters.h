// The weights of a model that is trained, on one of the ranks that train it: what the decoder computes with,
// and this rank's part of the fp32 masters, their gradient and, in the optimizer, their state.
//
// pp ranks hold different layers (models/pipeline_stage.h), tp ranks different slices of them
// (models/tensor_parallel.h). dp ranks, among them here those that share out the rows of a sequence (cp),
// whose gradients are parts of the same sum, hold the same slices, and share out more of them the higher the
// stage (ZeRO, arXiv:1910.02054): a block's parameters lie end to end, padded, and are cut into dp equal
// parts.
//
//   stage  weights          gradient           masters, optimizer
//   0      all              all, all-reduce    all
//   1      all              all, then a part   a part
//   2      all              a part             a part
//   3      a part           a part             a part
//
// In stages 2 and 3 a layer's whole gradient exists from the moment that the backward pass comes to it until
// it has been reduced, and in stage 3 a layer's weights while it computes and while the one before it does.
// The blocks that are no layers (embedding, final norm, head) are there throughout a step.
//
// A tied embedding is on the first and on the last stage of a pipeline: its gradient is the sum of both, on
// both, so the two stay the same bits. It counts once in the norm.
//
// Gradients over dp are summed in rank order (fast: the same bits for the same ranks), or exactly: the same
// bits for any number of dp ranks at one cp, if what is passed to backward() is the same and end_backward()
// stands behind each (exact_sum.h).
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "runtime/comm/communicator.h"
#include "trainer/models/decoder.h"
#include "trainer/models/pipeline_stage.h"
#include "trainer/sharding/exact_sum.h"
#include "trainer/sharding/sharding_config.h"

namespace trireme::sharding {

struct TrainingRanks {
  comm::Communicator* dp = nullptr;  // those that hold the same weights, along dp and cp; null: one rank
  models::TensorParallel tp;
  comm::Communicator* pp = nullptr;  // the stages of this replica, in order; null: one
  models::PipelineStage pipeline() const {
    return pp ? models::PipelineStage{pp->rank(), pp->size()} : models::PipelineStage{};
  }
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
  /// Where each block of the whole model begins in `flat`, which has the layout of the masters and lies on
  /// the host; null for those that other stages hold.
  std::vector<std::byte*> blocks_of(const at::Tensor& flat) const;

  /// Masters from a seed (ParameterSet::initialize). Local.
  void initialize(uint64_t seed, double embedding_std);
  /// Those of a value head alone, with the numbers that initialize() gives them. Local.
  void initialize_value_head(uint64_t seed);

  // Collective over dp, tp and pp, all ranks in the same order:

  /// Brings the masters' present values to where the decoder reads them, on all ranks.
  void publish();

  // Memory that is not needed between passes, and comes again by itself. Local.

  /// Until the next begin_update().
  void release_gradient();
  /// What publish() makes of the masters, until the next one.
  void release_weights();
  /// Whether forward and backward passes need the masters: in stage 3, of which weights are gathered from
  /// them, and where they are the weights.
  bool passes_read_masters() const { return stage_ == 3 || masters_are_weights_; }
  /// Stage 0 in fp32.
  bool masters_are_weights() const { return masters_are_weights_; }

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
  int num_blocks() const { return weights_.num_blocks(); }
  bool is_layer(int block) const { return block >= first_layer_ && block < end_of_layers_; }
  at::Tensor part_of(const at::Tensor& flat, int block) const;
  void lay_out();
  void draw(const std::vector<Stretch>& stretches, uint64_t seed, double embedding_std);
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
  void sum_tied(int block);
  void sum_tied_exactly(int block);
  bool counts(const Stretch& stretch) const;
  double norm() const;
  double exact_norm() const;

  models::DecoderShape shape_;
  int stage_;
  bool exact_;
  bool masters_are_weights_;
  TrainingRanks ranks_;
  models::ParameterSet weights_;
  models::Decoder* decoder_ = nullptr;
  at::Tensor masters_, gradient_;
  std::vector<Stretch> stretches_;
  std::vector<int64_t> block_begins_, cuts_;  // in the masters; elements of each block that a rank has
  int first_layer_ = 0, end_of_layers_ = 0;   // blocks
  std::vector<int> ends_;                     // the blocks that are no layers

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
