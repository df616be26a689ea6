#include "trainer/sharding/trained_parameters.h"

#include <xxhash.h>

#include <algorithm>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
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
  auto specs = models::parameter_specs(shape, ranks.tp.size(), ranks.tp.rank(), ranks.pipeline());
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
      masters_are_weights_(stage_ == 0 && compute_dtype == at::kFloat),
      ranks_(ranks),
      weights_(make_weights(shape, device, compute_dtype, stage_, ranks)),
      gathers_(static_cast<size_t>(weights_.num_blocks())) {
  TRIREME_CHECK(zero_stage >= 0 && zero_stage <= 3, "there is no ZeRO stage {}", zero_stage);
  TRIREME_CHECK(stage_ < 3 || ranks.pipeline().count == 1, "ZeRO stage 3 does not go with a pipeline");
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
  for (int b = 0; b < num_blocks(); ++b) {
    // Gradients of layers come and go in stages 2 and 3, weights too in 3.
    const bool layer = is_layer(b);
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
  for (int b = 0; b < num_blocks(); ++b) {
    if (weights_.spec(i).is_in_layer()) {
      if (end_of_layers_ == 0) first_layer_ = b;
      end_of_layers_ = b + 1;
    } else {
      ends_.push_back(b);
    }
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

std::vector<std::byte*> TrainedParameters::blocks_of(const at::Tensor& flat) const {
  std::vector<std::byte*> blocks(static_cast<size_t>(shape_.num_hidden_layers) + 2);
  const models::PipelineStage stage = ranks_.pipeline();
  const std::vector<int> own = models::blocks_of_stages(shape_, stage.count)[stage.index];
  for (size_t b = 0; b < own.size(); ++b)
    blocks[own[b]] = reinterpret_cast<std::byte*>(flat.data_ptr<float>() + block_begins_[b]);
  return blocks;
}

void TrainedParameters::initialize(uint64_t seed, double embedding_std) {
  draw(stretches_, seed, embedding_std);
}

void TrainedParameters::initialize_value_head(uint64_t seed) {
  std::vector<Stretch> head;
  for (const Stretch& stretch : stretches_)
    if (weights_.spec(stretch.parameter).is_value_head()) head.push_back(stretch);
  draw(head, seed, 0.0);
}

void TrainedParameters::draw(const std::vector<Stretch>& stretches, uint64_t seed, double embedding_std) {
  for (const Stretch& stretch : stretches) {
    const at::Tensor values = at::empty({stretch.numel()}, at::kFloat);
    models::draw_initial_values(weights_.spec(stretch.parameter), seed, shape_, embedding_std, stretch.begin,
                                stretch.end, values.mutable_data_ptr<float>());
    masters_.narrow(0, stretch.at, stretch.numel()).copy_(values);
  }
}

void TrainedParameters::publish() {
  for (int b = 0; is_sharded() && b < num_blocks(); ++b) {
    drop(b);
    if (stage_ == 3 && is_layer(b)) continue;
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
  if (stage_ == 3 && is_layer(block)) weights_.memory(block).release();
}

void TrainedParameters::before_forward(int block) {
  if (stage_ < 3) return;
  finish_gather(block);
  if (is_layer(block + 1)) start_gather(block + 1);
}

void TrainedParameters::after_forward(int block) {
  // The backward pass begins with the last one.
  if (stage_ == 3 && is_layer(block + 1)) drop(block);
}

void TrainedParameters::before_backward(int block) {
  if (stage_ == 3) {
    finish_gather(block);
    if (is_layer(block - 1)) start_gather(block - 1);
  }
  if (reduce_.block == block) finish_reduce();  // of the pass before, where a stage has one layer
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

void TrainedParameters::release_gradient() {
  for (int b = 0; is_sharded() && b < num_blocks(); ++b) weights_.gradient_memory(b).release();
  memory::release_memory(gradient_);
}

void TrainedParameters::release_weights() {
  for (int b = 0; is_sharded() && b < num_blocks(); ++b) {
    drop(b);
    weights_.memory(b).release();
  }
  decoder_->release_copies();
}

void TrainedParameters::begin_update(size_t micro_batches) {
  missing_ = stage_ >= 2 ? missing(micro_batches) : 0;
  memory::allocate_memory(gradient_);
  for (int b = 0; stage_ == 1 && b < num_blocks(); ++b) weights_.gradient_memory(b).allocate();
  if (stage_ >= 2)
    for (const int b : ends_) weights_.gradient_memory(b).allocate();
  weights_.zero_gradients();
  gradient_.zero_();
  for (ExactSum& sum : exact_sums_) sum.zero();
}

void TrainedParameters::end_backward() {
  if (!exact_) return;
  for (int b = 0; b < num_blocks(); ++b) {
    if (stage_ >= 2) {
      if (is_layer(b)) continue;  // after_backward() has done it
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
  for (int b = first_layer_; stage_ == 3 && b < end_of_layers_; ++b) {
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

void check_replicas(const at::Tensor& values, comm::Communicator& group) {
  const at::Tensor host = values.cpu().contiguous();
  const uint64_t sum = XXH3_64bits(host.const_data_ptr(), host.nbytes());
  const auto sums = group.all_gather_strings(fmt::format("{:016x}", sum));
  for (size_t rank = 1; rank < sums.size(); ++rank)
    TRIREME_CHECK(sums[rank] == sums[0], "the weights of '{}' differ between its ranks 0 ({}) and {} ({})",
                  group.name(), sums[0], rank, sums[rank]);
}

}  // namespace trireme::sharding
