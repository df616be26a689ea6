// A decoder of any family (family.h), described once, for rollout and for training.
//
// Weights live in a ParameterSet (one flat buffer, named as Hugging Face names them); a Decoder borrows them.
// Compute runs in `compute_dtype`: in the set's own buffer where that is its dtype, else in a copy. On the
// CPU the matrices are held once more, packed for the forward products (packed_gemm.h).
//
// Legend: T rows, D hidden_size, V vocab_size, N chosen (row, token) pairs.
#pragma once

#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "trainer/memory/shelf.h"
#include "trainer/models/context_parallel.h"
#include "trainer/models/decoder_shape.h"
#include "trainer/models/device_batch.h"
#include "trainer/models/forward_batch.h"
#include "trainer/models/ops.h"
#include "trainer/models/parameter_set.h"
#include "trainer/models/pipeline_stage.h"
#include "trainer/models/rope_table.h"
#include "trainer/models/tensor_parallel.h"

namespace trireme::models {

/// Brings blocks of weights (ParameterSpec::block) that a rank does not always hold, and takes them away.
/// Training calls it layer by layer, in the order of the forward pass and backwards.
class BlockResidency {
 public:
  virtual ~BlockResidency() = default;
  virtual void before_forward(int block) = 0;
  virtual void after_forward(int block) = 0;
  virtual void before_backward(int block) = 0;  // its gradient is added to from here on
  virtual void after_backward(int block) = 0;   // and is whole, as far as this pass goes
};

class Decoder {
 public:
  /// Borrows `parameters`, which must outlive it. Trains only if the set has gradients by now.
  /// On the CPU a row has the same bits in any batch. `packed` holds each matrix once more, so that
  /// generation is fast; without it only the head is held so, and layers are packed as they are used: for
  /// what reads a model a few times, many rows at a time. Where `tp` splits the model, `parameters` are this
  /// rank's slices, and forwards, logits and log-probabilities are collective over its group, whose ranks
  /// compute the same batch. A set in blocks must be of the compute dtype. Where `cp` splits the rows of
  /// batches for training, those forwards, log-probabilities and values are collective over its group too,
  /// whose ranks pass the same batch. Of a `stage` of a pipeline `parameters` are that stage's, and it has
  /// forward_stage() alone; the last one also what stands on the last norm.
  Decoder(const DecoderShape& shape, ParameterSet& parameters, at::ScalarType compute_dtype,
          bool packed = true, TensorParallel tp = {}, ContextParallel cp = {}, PipelineStage stage = {});
  // Graphs keep the addresses of its weights.
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  const DecoderShape& shape() const { return shape_; }  // of the whole model
  const TensorParallel& tensor_parallel() const { return tp_; }
  const ContextParallel& context_parallel() const { return cp_; }
  /// How many tokens of the vocabulary each tp rank has.
  const std::vector<int64_t>& vocabulary_pieces() const { return vocabulary_pieces_; }
  const ParameterSet& parameters() const { return parameters_; }
  at::ScalarType compute_dtype() const { return compute_dtype_; }
  at::Device device() const { return parameters_.device(); }

  /// From now on training keeps only each block's input, and the backward pass computes the block again: less
  /// memory, up to a third more time, the same bits. Off at first. Inputs are kept on the `shelf`, which is
  /// borrowed; null: in the device's memory.
  void recompute_blocks(bool on, memory::Shelf* shelf = nullptr) {
    recompute_blocks_ = on;
    shelf_ = shelf;
  }
  /// From now on layers' weights are there only between its calls. Borrowed; null: always.
  void set_residency(BlockResidency* residency) { residency_ = residency; }

  /// Takes the parameters' present values into the compute copy, where that is another buffer, and on the CPU
  /// into the packed matrices. Call after every change of the parameters. Local.
  void refresh();
  /// Gives back the memory of these copies, until the next refresh(). Local.
  void release_copies();

  /// Whether a row's bits depend on its own history alone: not on the batch, nor on whether it is computed in
  /// rollout or in training. So on the CPU; on a GPU our kernels keep to that, but the library's matrix
  /// products choose their algorithm by the number of rows.
  static bool rows_are_exact_on(at::Device device) { return device.is_cpu(); }

  /// Rollout: writes each row's key and value to its slot, returns the last norm's output, [T, D].
  at::Tensor forward_paged(const ForwardBatch& batch, KvSlots& kv) const;
  /// The same of a batch that lies on the GPU (its rope by rope_on_device): only enqueues work, which may be
  /// captured in a graph and replayed when the batch's memory holds another one of as many rows.
  at::Tensor forward_paged(const DeviceBatch& batch, KvSlots& kv) const;
  /// For forwards up to that many positions, [at least `positions`, head_dim].
  at::Tensor rope_on_device(int64_t positions) const;
  const AttentionDims& attention_dims() const { return dims_; }

  /// Training: a row's slot is the row itself. Records a graph where gradients are enabled and the set has
  /// them. `batch` must outlive the graph. [T, D]; where cp splits the rows, [T_c, D] of this rank's stretch
  /// (rows_of_ranks(); deal_rows() makes stretches of the same cost).
  at::Tensor forward_packed(const ForwardBatch& batch) const;
  /// The same of this stage's layers. `input`: what the stage before gave back, undefined on the first one.
  /// Returns rows for the next stage, on the last one what forward_packed() returns. Rows between stages are
  /// stage_rows() x D in the compute dtype.
  at::Tensor forward_stage(const ForwardBatch& batch, const at::Tensor& input) const;
  /// Of a batch's rows, those that this tp rank hands from stage to stage.
  int64_t stage_rows(const ForwardBatch& batch) const;
  const PipelineStage& stage() const { return stage_; }

  /// Logits of the given rows in fp32, [rows.size(), V]; no gradient.
  at::Tensor logits(const at::Tensor& hidden_TD, std::span<const int32_t> rows) const;
  /// Of all rows.
  at::Tensor logits(const at::Tensor& hidden_TD) const;

  /// log softmax(logits / temperature) at N (row, token) pairs, and the entropy at each pair's row. Rows are
  /// counted over the whole batch; all cp ranks name the same pairs and get all numbers, and a loss that all
  /// of them make of these alike counts once.
  LogProbs token_log_probs(const at::Tensor& hidden_TD, std::span<const int32_t> rows,
                           std::span<const int32_t> tokens, double temperature,
                           bool entropy_gradient = false) const;

  /// Of a decoder with a value head: the numbers of the given rows, fp32 [rows.size()]; rows may repeat. All
  /// tp and cp ranks have them.
  at::Tensor row_values(const at::Tensor& hidden_TD, std::span<const int32_t> rows) const;

  /// An empty cache of `num_slots` slots for every layer, in one piece of memory.
  KvSlots make_kv_slots(int64_t num_slots) const;
  int64_t kv_bytes_per_slot() const;

 private:
  struct Layer {
    Weight input_norm, qkv, qkv_bias, q_norm, k_norm, attention_output, attention_output_bias;
    Weight mlp_norm, gate_up, down;
    int block = 0;  // of the parameters
  };
  void add_layer(const std::string& prefix);
  Weight weight_at(const std::string& first, int64_t rows, int64_t columns);
  std::vector<Weight*> matrices();  // those that rows are multiplied by
  BatchPlan plan_of(const ForwardBatch& batch, bool paged) const;
  BatchPlan plan_of_rows(const ForwardBatch& batch, int32_t last_position, bool paged) const;
  std::vector<int64_t> row_shares(const at::Tensor& hidden_TD) const;
  at::Tensor forward(const BatchPlan& plan, KvSlots* kv, bool train, const at::Tensor& input = {}) const;
  at::Tensor block(const Layer& layer, const BatchPlan& plan, LayerKv* kv, at::Tensor residual) const;
  at::Tensor block_between(int64_t layer, const BatchPlan& plan, LayerKv* kv, at::Tensor residual,
                           bool train) const;
  // Rows as a product takes them, and what the parts of a product over all ranks come to.
  at::Tensor all_rows(const at::Tensor& rows, const BatchPlan& plan, bool paged) const;
  at::Tensor sum_of_parts(const at::Tensor& part, bool paged) const;

  DecoderShape shape_;
  ParameterSet& parameters_;
  at::ScalarType compute_dtype_;
  at::Tensor compute_flat_;  // the set's own buffer where its dtype is compute_dtype
  TensorParallel tp_;
  ContextParallel cp_;
  PipelineStage stage_;
  std::vector<int64_t> vocabulary_pieces_;
  int64_t first_token_ = 0;  // of this rank's piece
  AttentionDims dims_;       // of this rank's heads
  RopeTable rope_;
  Weight embedding_, final_norm_, head_;
  Weight head_bias_;  // of a value head
  std::vector<Layer> layers_;
  bool recompute_blocks_ = false;
  memory::Shelf* shelf_ = nullptr;
  BlockResidency* residency_ = nullptr;
};

/// Slots' memory comes again, with zeros in it, and goes; views of them stay.
void take_memory(KvSlots& slots);
void give_memory_back(KvSlots& slots);

}  // namespace trireme::models
