#include "trainer/models/parameter_set.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "runtime/base/counter_random.h"
#include "runtime/base/error.h"

namespace trireme::models {
namespace {

double uniform(uint64_t key, uint64_t counter) {  // in (0, 1)
  return (static_cast<double>(mix_bits(key ^ mix_bits(counter)) >> 11) + 0.5) * 0x1.0p-53;
}

// Elements [first, first + count) of a parameter. Keyed by the parameter and the element: no state, so
// order, threads and slices do not matter.
void fill_normal(float* data, uint64_t key, double std, int64_t first, int64_t count) {
  for (int64_t i = first - first % 2; i < first + count; i += 2) {
    const double radius = std::sqrt(-2.0 * std::log(uniform(key, i)));
    const double angle = 2.0 * std::numbers::pi * uniform(key, i + 1);
    if (i >= first) data[i - first] = static_cast<float>(std * radius * std::cos(angle));
    if (i + 1 < first + count) data[i + 1 - first] = static_cast<float>(std * radius * std::sin(angle));
  }
}

}  // namespace

void draw_initial_values(const ParameterSpec& spec, uint64_t seed, const DecoderShape& shape,
                         double embedding_std, int64_t begin, int64_t end, float* values) {
  using Kind = ParameterSpec::Kind;
  if (spec.kind == Kind::norm || spec.kind == Kind::bias) {
    std::fill_n(values, end - begin, spec.kind == Kind::norm ? 1.0f : 0.0f);
    return;
  }
  double std = shape.initializer_range;
  if (spec.kind == Kind::embedding) {
    std = embedding_std > 0 ? embedding_std : (std > 0 ? std : 0.02);
  } else {
    if (std == 0) std = 1.0 / std::sqrt(static_cast<double>(spec.whole_shape().back()));
    if (spec.kind == Kind::residual_output)
      std /= std::sqrt(2.0 * static_cast<double>(shape.num_hidden_layers));
  }
  const uint64_t key = mix_bits(mix_bits(seed) + static_cast<uint64_t>(spec.index));
  for_each_stretch(spec, begin, end, [&](int64_t in_whole, int64_t in_slice, int64_t count) {
    fill_normal(values + (in_slice - begin), key, std, in_whole, count);
  });
}

ParameterSet::ParameterSet(std::vector<ParameterSpec> specs, at::Device device, at::ScalarType dtype)
    : specs_(std::move(specs)), device_(device), dtype_(dtype) {
  index();
  flat_ = at::empty({num_parameters_}, at::TensorOptions().dtype(dtype).device(device));
  for (size_t i = 0; i < specs_.size(); ++i)
    views_.push_back(flat_.narrow(0, offsets_[i], specs_[i].numel()).view(specs_[i].shape));
}

ParameterSet::ParameterSet(std::vector<ParameterSpec> specs, at::Device device, at::ScalarType dtype,
                           Blocks blocks)
    : specs_(std::move(specs)), device_(device), dtype_(dtype) {
  index();
  for (int b = 0; b < num_blocks(); ++b) {
    const int64_t cuts = (block_numel(b) + blocks.multiple - 1) / blocks.multiple;
    blocks_.emplace_back(cuts * blocks.multiple, dtype, device);
  }
  for (size_t i = 0; i < specs_.size(); ++i) {
    const int b = specs_[i].block;
    views_.push_back(blocks_[b]
                         .values()
                         .narrow(0, offsets_[i] - block_begins_[b], specs_[i].numel())
                         .view(specs_[i].shape));
  }
}

void ParameterSet::index() {
  TRIREME_CHECK(dtype_ == at::kFloat || dtype_ == at::kBFloat16, "parameters are fp32 or bf16, not {}",
                c10::toString(dtype_));
  for (size_t i = 0; i < specs_.size(); ++i) {
    if (specs_[i].block == static_cast<int>(block_begins_.size())) block_begins_.push_back(num_parameters_);
    TRIREME_CHECK(specs_[i].block + 1 == static_cast<int>(block_begins_.size()),
                  "the block of {} is not the last one or the next", specs_[i].name);
    offsets_.push_back(num_parameters_);
    TRIREME_CHECK(index_.emplace(specs_[i].name, i).second, "two parameters are named {}", specs_[i].name);
    num_parameters_ += specs_[i].numel();
  }
  block_begins_.push_back(num_parameters_);
}

size_t ParameterSet::index_of(const std::string& name) const {
  const auto found = index_.find(name);
  TRIREME_CHECK(found != index_.end(), "no parameter is named {}", name);
  return found->second;
}

at::Tensor& ParameterSet::flat() {
  TRIREME_CHECK(is_flat(), "a set in blocks has no flat buffer");
  return flat_;
}
const at::Tensor& ParameterSet::flat() const {
  TRIREME_CHECK(is_flat(), "a set in blocks has no flat buffer");
  return flat_;
}
at::Tensor& ParameterSet::flat_gradient() {
  TRIREME_CHECK(is_flat() && has_gradients_, "no flat gradient here");
  return gradient_;
}
const at::Tensor& ParameterSet::flat_gradient() const {
  TRIREME_CHECK(is_flat() && has_gradients_, "no flat gradient here");
  return gradient_;
}

at::Tensor ParameterSet::block(int block) const {
  return is_flat() ? flat_.narrow(0, block_begins_[block], block_numel(block)) : blocks_[block].values();
}

at::Tensor ParameterSet::block_gradient(int block) const {
  TRIREME_CHECK(has_gradients_, "this set has no gradients");
  return is_flat() ? gradient_.narrow(0, block_begins_[block], block_numel(block))
                   : gradient_blocks_[block].values();
}

void ParameterSet::enable_gradients() {
  if (has_gradients_) return;
  has_gradients_ = true;
  if (!is_flat()) {
    for (const memory::BlockMemory& block : blocks_)
      gradient_blocks_.emplace_back(block.values().numel(), at::kFloat, device_);
    zero_gradients();
    return;
  }
  has_gradients_ = dtype_ == at::kFloat;
  TRIREME_CHECK(has_gradients_, "only fp32 parameters are trained in a flat buffer, these are {}",
                c10::toString(dtype_));
  gradient_ = at::zeros({num_parameters_}, flat_.options());
}

void ParameterSet::zero_gradients() {
  TRIREME_CHECK(has_gradients_, "zero_gradients before enable_gradients");
  if (is_flat()) gradient_.zero_();
  for (const memory::BlockMemory& block : gradient_blocks_)
    if (block.allocated()) at::Tensor(block.values()).zero_();
}

void ParameterSet::initialize(uint64_t seed, const DecoderShape& shape, double embedding_std) {
  for (size_t i = 0; i < specs_.size(); ++i) {
    // Drawn in fp32 on the host: bf16 sets and other devices get the same numbers, rounded.
    const bool in_place = device_.is_cpu() && dtype_ == at::kFloat;
    const at::Tensor values = in_place ? views_[i] : at::empty(specs_[i].shape, at::kFloat);
    draw_initial_values(specs_[i], seed, shape, embedding_std, 0, specs_[i].numel(),
                        values.mutable_data_ptr<float>());
    if (!in_place) views_[i].copy_(values);
  }
}

uint64_t ParameterSet::checksum() const {
  XXH3_state_t* state = XXH3_createState();
  XXH3_64bits_reset(state);
  for (int b = 0; b < num_blocks(); ++b) {
    const at::Tensor host = block(b).narrow(0, 0, block_numel(b)).cpu();
    XXH3_64bits_update(state, host.const_data_ptr(), host.nbytes());
  }
  const uint64_t sum = XXH3_64bits_digest(state);
  XXH3_freeState(state);
  return sum;
}

}  // namespace trireme::models
