// The end of an update: the gradient over all ranks, and its norm.
#include <algorithm>
#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>

#include "trainer/models/tensor_view.h"
#include "trainer/sharding/trained_parameters.h"

namespace trireme::sharding {

using models::view_of;

double TrainedParameters::sum_gradient() {
  for (; missing_ > 0; --missing_) {
    pass_forward_empty();
    for (int b = end_of_layers_ - 1; b >= first_layer_; --b) {
      before_backward(b);
      after_backward(b);
    }
    end_backward();
  }
  sum_over_dp();
  const models::PipelineStage stage = ranks_.pipeline();
  const bool tied = models::holds_tied_copy(shape_, {stage.count - 1, stage.count}) &&
                    (stage.is_first() || stage.is_last());
  if (exact_) {
    if (tied) sum_tied_exactly(0);
    bool sound = true;
    for (const ExactSum& sum : exact_sums_) sound &= sum.is_sound();
    for (int b = 0; sound && b < num_blocks(); ++b) exact_sums_[b].read(part_of(gradient_, b));
    // Other ranks hold other slices and layers; one that is spoilt spoils all.
    if (ranks_.tp.is_split()) sound = ranks_.tp.group->all_reduce_scalar(sound, comm::ReduceOp::min) == 1;
    if (ranks_.pp) sound = ranks_.pp->all_reduce_scalar(sound, comm::ReduceOp::min) == 1;
    if (!sound) return std::nan("");
  } else if (tied) {
    sum_tied(0);
  }
  sum_over_tp();
  return exact_ ? exact_norm() : norm();
}

void TrainedParameters::sum_over_dp() {
  if (stage_ >= 2) {
    if (!exact_)
      for (const int b : ends_) start_reduce(b);
    finish_reduce();
    if (exact_)
      for (const int b : ends_) weights_.gradient_memory(b).release();
    return;
  }
  if ((!ranks_.dp || ranks_.dp->size() == 1)) return;
  if (!exact_) {
    if (stage_ == 0) return ranks_.dp->all_reduce(view_of(gradient_));
    for (int b = 0; b < num_blocks(); ++b) start_reduce(b);
    return finish_reduce();
  }
  for (int b = 0; b < num_blocks(); ++b) {
    ExactSum& sum = exact_sums_[b];
    const double state = ranks_.dp->all_reduce_scalar(!sum.is_sound()        ? 2
                                                      : sum.high().defined() ? 1
                                                                             : 0,
                                                      comm::ReduceOp::max);
    if (state == 2) {
      sum.spoil();
      continue;
    }
    if (state == 1) sum.need_high();
    const auto reduce = [&](at::Tensor& words) {
      if (stage_ == 0) return ranks_.dp->host().all_reduce(view_of(words));
      const at::Tensor part = at::empty({cuts_[b]}, at::kLong);
      ranks_.dp->host().reduce_scatter(view_of(words), view_of(part));
      words.narrow(0, 0, cuts_[b]).copy_(part);
    };
    reduce(sum.low());
    if (state == 1) reduce(sum.high());
  }
}

// What several tp ranks hold alike: each has the part that its heads or rows made. Side by side in one
// message.
void TrainedParameters::sum_over_tp() {
  if (!ranks_.tp.is_split()) return;
  const int tp = ranks_.tp.size(), mine = ranks_.tp.rank();
  const auto shared = [&](const Stretch& s) { return weights_.spec(s.parameter).holders > 1; };
  int64_t count = 0;
  for (const Stretch& stretch : stretches_)
    if (shared(stretch)) count += stretch.numel();
  const at::Tensor parts = at::empty({count}, gradient_.options()),
                   all = at::empty({tp, count}, gradient_.options());
  const auto for_each_shared = [&](const auto& body) {
    int64_t at = 0;
    for (const Stretch& stretch : stretches_) {
      if (!shared(stretch)) continue;
      body(stretch, gradient_.narrow(0, stretch.at, stretch.numel()), at);
      at += stretch.numel();
    }
  };
  for_each_shared([&](const Stretch& s, const at::Tensor& values, int64_t at) {
    parts.narrow(0, at, s.numel()).copy_(values);
  });
  ranks_.tp.group->all_gather(view_of(parts), view_of(all));
  for_each_shared([&](const Stretch& s, at::Tensor values, int64_t at) {
    const int holders = weights_.spec(s.parameter).holders, first = mine / holders * holders;
    values.copy_(all[first].narrow(0, at, s.numel()));
    for (int t = first + 1; t < first + holders; ++t) values.add_(all[t].narrow(0, at, s.numel()));
  });
}

// The other rank that holds the tied embedding sends its gradient and gets ours: both then add up the same
// two numbers, the first stage's first. Its cut over dp is the same one, so nothing else is needed.
void TrainedParameters::sum_tied(int block) {
  at::Tensor mine = part_of(gradient_, block);
  const at::Tensor other = at::empty_like(mine);
  const models::PipelineStage stage = ranks_.pipeline();
  const int peer = stage.is_first() ? stage.count - 1 : 0;
  const comm::Send send{peer, view_of(mine)};
  const comm::Receive receive{peer, view_of(other)};
  ranks_.pp->send_recv({&send, 1}, {&receive, 1});
  stage.is_first() ? mine.add_(other) : mine.copy_(other.add_(mine));
}

// The same of the sums' words.
void TrainedParameters::sum_tied_exactly(int block) {
  const models::PipelineStage stage = ranks_.pipeline();
  const int peer = stage.is_first() ? stage.count - 1 : 0;
  comm::Communicator& stages = ranks_.pp->host();
  const auto swap = [&](const at::Tensor& mine) {
    at::Tensor other = at::empty_like(mine);
    const comm::Send send{peer, view_of(mine)};
    const comm::Receive receive{peer, view_of(other)};
    stages.send_recv({&send, 1}, {&receive, 1});
    return other;
  };
  ExactSum& sum = exact_sums_[block];
  const at::Tensor state = at::full({1}, !sum.is_sound() ? 2 : sum.high().defined() ? 1 : 0, at::kLong);
  const int64_t largest = std::max(state.item<int64_t>(), swap(state).item<int64_t>());
  if (largest == 2) return sum.spoil();
  const auto add = [&](at::Tensor& words) {
    at::Tensor mine = words.narrow(0, 0, cuts_[block]);
    mine.add_(swap(mine));
  };
  add(sum.low());
  if (largest == 0) return;
  sum.need_high();
  add(sum.high());
}

constexpr int64_t kNormPiece = 1 << 20;

// Each element counts once, however many ranks hold it.
bool TrainedParameters::counts(const Stretch& stretch) const {
  const models::ParameterSpec& spec = weights_.spec(stretch.parameter);
  const bool is_copy = spec.kind == models::ParameterSpec::Kind::embedding &&
                       models::holds_tied_copy(shape_, ranks_.pipeline());
  return !is_copy && ranks_.tp.rank() % spec.holders == 0;
}

double TrainedParameters::norm() const {
  double squares = 0;
  for (const Stretch& stretch : stretches_) {
    if (!counts(stretch)) continue;
    // LibTorch makes a copy in double precision first: of a million at a time, not of an embedding.
    for (int64_t begin = 0; begin < stretch.numel(); begin += kNormPiece) {
      const int64_t count = std::min(kNormPiece, stretch.numel() - begin);
      const double part =
          at::linalg_vector_norm(gradient_.narrow(0, stretch.at + begin, count), 2, {}, false, at::kDouble)
              .item<double>();
      squares += part * part;
    }
  }
  if (is_sharded()) squares = ranks_.dp->all_reduce_scalar(squares);
  if (ranks_.tp.is_split()) squares = ranks_.tp.group->all_reduce_scalar(squares);
  if (ranks_.pp) squares = ranks_.pp->all_reduce_scalar(squares);
  return std::sqrt(squares);
}

double TrainedParameters::exact_norm() const {
  const at::Tensor host = gradient_.cpu();
  ExactSquares squares;
  for (const Stretch& stretch : stretches_)
    if (counts(stretch)) squares.add(host.const_data_ptr<float>() + stretch.at, stretch.numel());
  const comm::BufferView words{squares.words, ExactSquares::kWords, comm::DType::i64};
  if (is_sharded()) ranks_.dp->host().all_reduce(words);
  if (ranks_.tp.is_split()) ranks_.tp.group->host().all_reduce(words);
  if (ranks_.pp) ranks_.pp->host().all_reduce(words);
  return std::sqrt(squares.value());
}

}  // namespace trireme::sharding
