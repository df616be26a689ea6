// The passes of an update, or of reading, over micro-batches: on one rank, or stage by stage over the ranks
// that share out a model's layers (pp). Every stage has the same micro-batches; between neighbours go a
// micro-batch's rows and, on the way back, their gradient. What is computed of them, losses and numbers, is
// computed on the last stage.
//
// Messages. A stage posts the receive of its next input before it goes backwards, so rows arrive while it
// computes; it never waits for a send. For each pair of neighbours both sides post their messages in one
// order, so the stages cannot wait for each other in a circle, not even where one stream carries them all
// (NCCL).
#pragma once

#include <deque>
#include <functional>
#include <optional>

#include <ATen/core/Tensor.h>

#include "runtime/comm/communicator.h"
#include "trainer/models/decoder.h"
#include "trainer/sharding/trained_parameters.h"

namespace trireme::sharding {

class Pipeline {
 public:
  /// Borrows all, which outlive it. `parameters`: what the decoder's weights are a part of; null for a model
  /// that is only read. `stages`: the ranks of this replica's stages, in order; null: one.
  Pipeline(const models::Decoder& decoder, TrainedParameters* parameters, comm::Communicator* stages);

  const models::Decoder& decoder() const { return decoder_; }
  bool is_last() const { return decoder_.stage().is_last(); }

  using Batches = std::function<const models::ForwardBatch&(size_t)>;
  using Loss = std::function<at::Tensor(size_t, const at::Tensor& hidden)>;
  using Reader = std::function<void(size_t, const at::Tensor& hidden)>;

  // Collective over: the replica's ranks, with the same micro-batches, and where weights are shared out the
  // dp ranks. Micro-batch k is batch(k), which stays where it is until the call returns. The last function is
  // called on the last stage alone, k ascending, with what forward_packed() returns.

  /// Begins an update and adds up its gradient; sum_gradient() of the parameters ends it.
  void train(size_t micro_batches, const Batches& batch, const Loss& loss);
  /// Without gradients.
  void read(size_t micro_batches, const Batches& batch, const Reader& reader);

  /// The last stage's values on all stages, of a tensor of the same shape. Collective over: the stages.
  void share(at::Tensor& on_host) const;

  /// Of the last train(), on the host: what is neither forward nor backward is waiting for other stages.
  struct Seconds {
    double all = 0, forward = 0, backward = 0;
  };
  const Seconds& seconds() const { return seconds_; }

 private:
  struct Message {
    at::Tensor rows;
    comm::WorkHandle work;
  };
  Message expect(int from, const models::ForwardBatch& batch);
  at::Tensor arrived(Message message);
  void send(int to, const at::Tensor& rows);
  void finish_sends();

  const models::Decoder& decoder_;
  TrainedParameters* parameters_;
  comm::Communicator* stages_;
  // Under way: members, so that an error does not wait for them.
  std::deque<Message> sent_;
  std::optional<Message> next_;  // the input of the next forward pass
  Seconds seconds_;
};

}  // namespace trireme::sharding
