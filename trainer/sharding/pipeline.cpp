#include "trainer/sharding/pipeline.h"

#include <chrono>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "runtime/base/error.h"
#include "trainer/models/tensor_view.h"
#include "trainer/sharding/pipeline_schedule.h"

namespace trireme::sharding {
namespace {

using Clock = std::chrono::steady_clock;

// Adds how long it lives.
class Timed {
 public:
  explicit Timed(double& seconds) : seconds_(seconds) {}
  ~Timed() { seconds_ += std::chrono::duration<double>(Clock::now() - begin_).count(); }

 private:
  double& seconds_;
  Clock::time_point begin_ = Clock::now();
};

// A micro-batch between its forward and its backward pass.
struct Kept {
  at::Tensor input;   // a leaf that gets a gradient; undefined on the first stage
  at::Tensor output;  // rows, or the loss on the last stage
};

}  // namespace

Pipeline::Pipeline(const models::Decoder& decoder, TrainedParameters* parameters, comm::Communicator* stages)
    : decoder_(decoder), parameters_(parameters), stages_(stages) {
  const models::PipelineStage stage =
      stages ? models::PipelineStage{stages->rank(), stages->size()} : models::PipelineStage{};
  TRIREME_CHECK(stage.index == decoder.stage().index && stage.count == decoder.stage().count,
                "the decoder is stage {} of {}, this rank is {} of {}", decoder.stage().index,
                decoder.stage().count, stage.index, stage.count);
}

// Posts a receive of rows, or of their gradient.
Pipeline::Message Pipeline::expect(int from, const models::ForwardBatch& batch) {
  const auto options = at::TensorOptions().dtype(decoder_.compute_dtype()).device(decoder_.device());
  Message message{at::empty({decoder_.stage_rows(batch), decoder_.shape().hidden_size}, options), nullptr};
  const comm::Receive receive{from, models::view_of(message.rows)};
  message.work = stages_->send_recv_async({}, {&receive, 1});
  return message;
}

at::Tensor Pipeline::arrived(Message message) {
  message.work->join();
  return std::move(message.rows);
}

void Pipeline::send(int to, const at::Tensor& rows) {
  while (!sent_.empty() && sent_.front().work->done()) {
    sent_.front().work->join();
    sent_.pop_front();
  }
  Message message{rows.detach().contiguous(), nullptr};
  const comm::Send out{to, models::view_of(message.rows)};
  message.work = stages_->send_recv_async({&out, 1}, {});
  sent_.push_back(std::move(message));
}

void Pipeline::finish_sends() {
  for (; !sent_.empty(); sent_.pop_front()) sent_.front().work->join();
}

void Pipeline::train(size_t micro_batches, const Batches& batch, const Loss& loss) {
  const models::PipelineStage& stage = decoder_.stage();
  seconds_ = {};
  const Timed all(seconds_.all);
  parameters_->begin_update(micro_batches);
  std::deque<Kept> kept;
  size_t forwards = 0;
  const auto expect_input = [&] {
    if (!stage.is_first() && !next_ && forwards < micro_batches)
      next_ = expect(stage.index - 1, batch(forwards));
  };
  for (const Pass& pass : one_forward_one_backward(stage, micro_batches)) {
    const size_t k = pass.micro_batch;
    if (pass.is_forward) {
      Kept& now = kept.emplace_back();
      expect_input();
      if (next_) now.input = arrived(*std::exchange(next_, std::nullopt)).requires_grad_(true);
      ++forwards;
      const Timed forward(seconds_.forward);
      now.output = decoder_.forward_stage(batch(k), now.input);
      if (stage.is_last())
        now.output = loss(k, now.output);
      else
        send(stage.index + 1, now.output);
      continue;
    }
    at::Tensor gradient;
    if (!stage.is_last()) gradient = arrived(expect(stage.index + 1, batch(k)));
    expect_input();
    const Kept now = std::move(kept.front());
    kept.pop_front();
    const Timed backward(seconds_.backward);
    now.output.backward(gradient);
    if (!stage.is_first()) send(stage.index - 1, now.input.grad());
    parameters_->end_backward();
  }
  finish_sends();
}

void Pipeline::read(size_t micro_batches, const Batches& batch, const Reader& reader) {
  const at::NoGradGuard no_gradients;
  const models::PipelineStage& stage = decoder_.stage();
  if (parameters_) parameters_->begin_forwards(micro_batches);
  for (size_t k = 0; k < micro_batches; ++k) {
    at::Tensor rows;
    if (!stage.is_first()) rows = arrived(expect(stage.index - 1, batch(k)));
    rows = decoder_.forward_stage(batch(k), rows);
    if (stage.is_last())
      reader(k, rows);
    else
      send(stage.index + 1, rows);
  }
  finish_sends();
  if (parameters_) parameters_->end_forwards();
}

void Pipeline::share(at::Tensor& on_host) const {
  if (stages_) stages_->host().broadcast(models::view_of(on_host), stages_->size() - 1);
}

}  // namespace trireme::sharding
