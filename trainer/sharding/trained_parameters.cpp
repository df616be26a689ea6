#include "trainer/sharding/trained_parameters.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/zeros.h>

#include "runtime/base/error.h"
#include "trainer/models/tensor_view.h"

namespace trireme::sharding {

using models::view_of;

namespace {

int dp_size(const TrainingRanks& ranks) {
  return ranks.dp ? ranks.dp->size() : 1;
}

models::ParameterSet make_weights(const models::DecoderShape& shape, at::Device device,
                                  at::ScalarType compute_dtype, int stage, const TrainingRanks& ranks) {
  auto specs = models::parameter_specs(shape, ranks.tp.size(), ranks.tp.rank());
  if (stage == 0) return models::ParameterSet(std::move(specs), device);
  return models::ParameterSet(std::move(specs), device, compute_dtype,
                              models::ParameterSet::Blocks{.multiple = dp_size(ranks)});
}

}  // namespace

TrainedParameters::TrainedParameters(const models::DecoderShape& shape, at::Device device,
                                     at::ScalarType compute_dtype, int zero_stage, bool exact,
                                     const TrainingRanks& ranks)
    : shape_(shape),
      stage_(dp_size(ranks) > 1 ? zero_stage : 0),
      exact_(exact),
      ranks_(ranks),
      weights_(make_weights(shape, device, compute_dtype, stage_, ranks)),
      gathers_(static_cast<size_t>(weights_.num_blocks())) {
  TRIREME_CHECK(zero_stage >= 0 && zero_stage <= 3, "there is no ZeRO stage {}", zero_stage);
  weights_.enable_gradients();
  lay_out();
  if (!is_sharded()) {
    masters_ = weights_.flat();
    gradient_ = weights_.flat_gradient();
  } else {
    const auto floats = at::TensorOptions().dtype(at::kFloat).device(device);
    masters_ = at::zeros({block_begins_.back()}, floats);
    gradient_ = at::zeros({block_begins_.back()}, floats);
  }
  for (int b = 0; b <= last_block(); ++b) {
    // Gradients of layers come and go in stages 2 and 3, weights too in 3.
    const bool layer = b > 0 && b < last_block();
    if (stage_ >= 2) weights_.gradient_memory(b).release();
    if (stage_ == 3 && layer) weights_.memory(b).release();
    gathers_[b].there = stage_ < 3 || !layer;
    if (!exact) continue;
    exact_sums_.emplace_back(stage_ >= 2 ? cuts_[b] : weights_.block(b).numel());
  }
}

// In stage 0 a block's part is all of it.
void TrainedParameters::lay_out() {
  const int dp = is_sharded() ? dp_size(ranks_) : 1, d = is_sharded() ? ranks_.dp->rank() : 0;
  int64_t at = 0;
  size_t i = 0;
  for (int b = 0; b <= last_block(); ++b) {
    block_begins_.push_back(at);
    cuts_.push_back(weights_.block(b).numel() / dp);
    const int64_t first = d * cuts_.back(), last = first + cuts_.back();
    for (; i < weights_.size() && weights_.spec(i).block == b; ++i) {
      const int64_t offset = weights_.offset(i) - weights_.block_begin(b), numel = weights_.spec(i).numel();
      const int64_t begin = std::clamp<int64_t>(first - offset, 0, numel),
                    end = std::clamp<int64_t>(last - offset, 0, numel);
      if (begin < end) stretches_.push_back({i, begin, end, at + offset + begin - first});
    }
    at += cuts_.back();
  }
  block_begins_.push_back(at);
}

void TrainedParameters::attach(models::Decoder& decoder) {
  decoder_ = &decoder;
  if (stage_ >= 2) decoder.set_residency(this);
}

at::Tensor TrainedParameters::part_of(const at::Tensor& flat, int block) const {
  return flat.narrow(0, block_begins_[block], cuts_[block]);
}

void TrainedParameters::initialize(uint64_t seed, double embedding_std) {
  const at::Tensor host = masters_.is_cpu() ? masters_ : at::zeros(masters_.sizes(), at::kFloat);
  for (const Stretch& stretch : stretches_)
    models::draw_initial_values(weights_.spec(stretch.parameter), stretch.parameter, seed, shape_,
                                embedding_std, stretch.begin, stretch.end,
                                host.mutable_data_ptr<float>() + stretch.at);
  if (!host.is_same(masters_)) masters_.copy_(host);
}

void TrainedParameters::publish() {
  for (int b = 0; is_sharded() && b <= last_block(); ++b) {
    const bool layer = b > 0 && b < last_block();
    drop(b);
    if (stage_ == 3 && layer) continue;
    finish_gather(b);
  }
  if (decoder_) decoder_->refresh();
}

// A part is converted to what the decoder computes in, then gathered straight to where it reads.
void TrainedParameters::start_gather(int block) {
  Gather& gather = gathers_[block];
  if (gather.there || gather.work) return;
  weights_.memory(block).allocate();
  gather.part = part_of(masters_, block).to(weights_.dtype()).contiguous();
  gather.work = ranks_.dp->all_gather_async(view_of(gather.part), view_of(weights_.block(block)));
}

void TrainedParameters::finish_gather(int block) {
  start_gather(block);
  Gather& gather = gathers_[block];
  if (gather.work) gather.work->join();
  gather = {.part = {}, .work = nullptr, .there = true};
}

void TrainedParameters::drop(int block) {
  if (gathers_[block].work) finish_gather(block);
  gathers_[block].there = false;
  if (stage_ == 3 && block > 0 && block < last_block()) weights_.memory(block).release();
}

void TrainedParameters::before_forward(int block) {
  if (stage_ < 3) return;
  finish_gather(block);
  if (block + 1 < last_block()) start_gather(block + 1);
}

void TrainedParameters::after_forward(int block) {
  // The backward pass begins with the last one.
  if (stage_ == 3 && block + 1 < last_block()) drop(block);
}

void TrainedParameters::before_backward(int block) {
  if (stage_ == 3) {
    finish_gather(block);
    if (block > 1) start_gather(block - 1);
  }
  weights_.gradient_memory(block).allocate();
  weights_.block_gradient(block).zero_();
}

void TrainedParameters::after_backward(int block) {
  if (stage_ == 3) drop(block);
  if (exact_)
    reduce_exactly(block);
  else
    start_reduce(block);
}

void TrainedParameters::start_reduce(int block) {
  finish_reduce();
  reduce_.block = block;
  reduce_.part = at::empty({cuts_[block]}, gradient_.options());
  reduce_.work = ranks_.dp->reduce_scatter_async(view_of(weights_.block_gradient(block)),
                                                 view_of(reduce_.part), comm::ReduceOp::sum);
}

void TrainedParameters::finish_reduce() {
  if (reduce_.block < 0) return;
  reduce_.work->join();
  part_of(gradient_, reduce_.block).add_(reduce_.part);
  if (stage_ >= 2) weights_.gradient_memory(reduce_.block).release();
  reduce_ = {};
}

// A layer's gradient of one backward pass, in stages 2 and 3.
void TrainedParameters::reduce_exactly(int block) {
  ExactSum pass(weights_.block(block).numel());
  pass.add(weights_.block_gradient(block));
  weights_.gradient_memory(block).release();
  ExactSum& sum = exact_sums_[block];
  const double state = ranks_.dp->all_reduce_scalar(!pass.is_sound()        ? 2
                                                    : pass.high().defined() ? 1
                                                                            : 0,
                                                    comm::ReduceOp::max);
  if (state == 2) return sum.spoil();
  const auto reduce = [&](const at::Tensor& from, at::Tensor& to) {
    const at::Tensor part = at::empty({cuts_[block]}, at::kLong);
    ranks_.dp->host().reduce_scatter(view_of(from), view_of(part));
    to.add_(part);
  };
  reduce(pass.low(), sum.low());
  if (state == 0) return;
  pass.need_high();
  sum.need_high();
  reduce(pass.high(), sum.high());
}

void TrainedParameters::begin_update(size_t micro_batches) {
  missing_ = stage_ >= 2 ? missing(micro_batches) : 0;
  if (stage_ >= 2)
    for (const int b : {0, last_block()}) weights_.gradient_memory(b).allocate();
  weights_.zero_gradients();
  gradient_.zero_();
  for (ExactSum& sum : exact_sums_) sum.zero();
}

void TrainedParameters::end_backward() {
  if (!exact_) return;
  for (int b = 0; b <= last_block(); ++b) {
    if (stage_ >= 2) {
      if (b > 0 && b < last_block()) continue;  // after_backward() has done it
      reduce_exactly(b);
      weights_.gradient_memory(b).allocate();
    } else {
      exact_sums_[b].add(weights_.block_gradient(b));
    }
    weights_.block_gradient(b).zero_();
  }
}

// How many passes fewer than another dp rank this one has made.
int64_t TrainedParameters::missing(size_t passes) const {
  const double most = ranks_.dp->all_reduce_scalar(static_cast<double>(passes), comm::ReduceOp::max);
  return static_cast<int64_t>(most) - static_cast<int64_t>(passes);
}

void TrainedParameters::pass_forward_empty() {
  for (int b = 1; stage_ == 3 && b < last_block(); ++b) {
    before_forward(b);
    after_forward(b);
  }
}

void TrainedParameters::begin_forwards(size_t passes) {
  missing_ = stage_ == 3 ? missing(passes) : 0;
}

void TrainedParameters::end_forwards() {
  for (; missing_ > 0; --missing_) pass_forward_empty();
}

double TrainedParameters::sum_gradient() {
  for (; missing_ > 0; --missing_) {
    pass_forward_empty();
    for (int b = last_block() - 1; b > 0; --b) {
      before_backward(b);
      after_backward(b);
    }
    end_backward();
  }
  sum_over_dp();
  bool sound = true;
  for (const ExactSum& sum : exact_sums_) sound &= sum.is_sound();
  if (exact_) {
    for (int b = 0; sound && b <= last_block(); ++b) exact_sums_[b].read(part_of(gradient_, b));
    // tp ranks hold different slices; one that is spoilt spoils all.
    if (ranks_.tp.is_split()) sound = ranks_.tp.group->all_reduce_scalar(sound, comm::ReduceOp::min) == 1;
    if (!sound) return std::nan("");
  }
  sum_over_tp();
  return exact_ ? exact_norm() : norm();
}

void TrainedParameters::sum_over_dp() {
  if (stage_ >= 2) {
    if (!exact_)
      for (const int b : {0, last_block()}) start_reduce(b);
    finish_reduce();
    if (exact_)
      for (const int b : {0, last_block()}) weights_.gradient_memory(b).release();
    return;
  }
  if (dp_size(ranks_) == 1) return;
  if (!exact_) {
    if (stage_ == 0) return ranks_.dp->all_reduce(view_of(gradient_));
    for (int b = 0; b <= last_block(); ++b) start_reduce(b);
    return finish_reduce();
  }
  for (int b = 0; b <= last_block(); ++b) {
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

// Each element counts once, however many ranks hold it.
double TrainedParameters::norm() const {
  double squares = 0;
  for (const Stretch& stretch : stretches_) {
    if (ranks_.tp.rank() % weights_.spec(stretch.parameter).holders != 0) continue;
    const double part =
        at::linalg_vector_norm(gradient_.narrow(0, stretch.at, stretch.numel()), 2, {}, false, at::kDouble)
            .item<double>();
    squares += part * part;
  }
  if (is_sharded()) squares = ranks_.dp->all_reduce_scalar(squares);
  if (ranks_.tp.is_split()) squares = ranks_.tp.group->all_reduce_scalar(squares);
  return std::sqrt(squares);
}

double TrainedParameters::exact_norm() const {
  const at::Tensor host = gradient_.cpu();
  ExactSquares squares;
  for (const Stretch& stretch : stretches_)
    if (ranks_.tp.rank() % weights_.spec(stretch.parameter).holders == 0)
      squares.add(host.const_data_ptr<float>() + stretch.at, stretch.numel());
  const comm::BufferView words{squares.words, ExactSquares::kWords, comm::DType::i64};
  if (is_sharded()) ranks_.dp->host().all_reduce(words);
  if (ranks_.tp.is_split()) ranks_.tp.group->host().all_reduce(words);
  return std::sqrt(squares.value());
}

void check_replicas(const at::Tensor& values, comm::Communicator& group) {
  const at::Tensor host = values.cpu().contiguous();
  const uint64_t sum = XXH3_64bits(host.const_data_ptr(), host.nbytes());
  const auto sums = group.all_gather_strings(fmt::format("{:016x}", sum));
  for (size_t rank = 1; rank < sums.size(); ++rank)
    TRIREME_CHECK(sums[rank] == sums[0], "the weights of '{}' differ between its ranks 0 ({}) and {} ({})",
                  group.name(), sums[0], rank, sums[rank]);
}

}  // namespace trireme::sharding
