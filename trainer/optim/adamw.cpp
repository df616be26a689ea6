#include "trainer/optim/adamw.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <tuple>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/zeros_like.h>

#include "runtime/base/error.h"

namespace trireme::optim {

namespace {

// (begin, length, decays) of parameters or parts of them, in order; padding between them is left out.
template <typename Range, typename Item>
std::vector<Range> joined(const std::vector<Item>& items) {
  std::vector<Range> ranges;
  for (const auto& [begin, length, decays] : items) {
    if (!ranges.empty() && ranges.back().decays == decays &&
        ranges.back().begin + ranges.back().length == begin)
      ranges.back().length += length;
    else
      ranges.push_back({begin, length, decays});
  }
  return ranges;
}

using Item = std::tuple<int64_t, int64_t, bool>;

std::vector<Item> items_of(const models::ParameterSet& parameters) {
  std::vector<Item> items;
  for (size_t i = 0; i < parameters.size(); ++i)
    items.emplace_back(parameters.offset(i), parameters.spec(i).numel(), parameters.spec(i).weight_decay());
  return items;
}

std::vector<Item> items_of(const sharding::TrainedParameters& parameters) {
  std::vector<Item> items;
  for (const sharding::Stretch& stretch : parameters.stretches())
    items.emplace_back(stretch.at, stretch.numel(),
                       parameters.weights().spec(stretch.parameter).weight_decay());
  return items;
}

}  // namespace

AdamW::AdamW(const at::Tensor& masters, const at::Tensor& gradient, std::vector<Range> ranges,
             const OptimConfig& config, memory::Outside* outside)
    : masters_(masters),
      gradient_(gradient),
      ranges_(std::move(ranges)),
      config_(config),
      outside_(outside) {
  for (const Moment which : {first, second}) {
    if (outside)
      slots_[which] = outside->take(static_cast<int64_t>(masters.nbytes()));
    else
      moments_[which] = at::zeros_like(masters);
    // A slot may have been another's.
    if (outside) set_moment(which, at::zeros_like(masters, masters.options().device(at::kCPU)));
  }
}

AdamW::AdamW(models::ParameterSet& parameters, const OptimConfig& config, memory::Outside* outside)
    : AdamW(parameters.flat(), parameters.flat_gradient(), joined<Range>(items_of(parameters)), config,
            outside) {}

AdamW::AdamW(sharding::TrainedParameters& parameters, const OptimConfig& config, memory::Outside* outside)
    : AdamW(parameters.masters(), parameters.gradient(), joined<Range>(items_of(parameters)), config,
            outside) {}

AdamW::~AdamW() {
  if (!outside_) return;
  for (const memory::Outside::Slot slot : slots_) outside_->give_back(slot);
}

at::Tensor AdamW::moment(Moment which) const {
  if (!outside_) return moments_[which].cpu();
  const at::Tensor values = at::empty_like(masters_, masters_.options().device(at::kCPU));
  outside_->read(slots_[which], values).get();
  return values;
}

void AdamW::set_moment(Moment which, const at::Tensor& values) {
  if (!outside_)
    moments_[which].copy_(values);
  else
    outside_->write(slots_[which], values).get();
}

namespace {

struct Constants {
  float decay, beta1, beta2, step_size, inverse_root, eps;
};

// Every element by the same few roundings, wherever it lies: shards of any cut end with the same bits.
void update(const Constants& c, int64_t count, const float* gradient, float* master, float* first,
            float* second) {
  for (int64_t i = 0; i < count; ++i) {
    const float g = gradient[i];
    const float m = c.beta1 * first[i] + (1.0f - c.beta1) * g;
    const float v = c.beta2 * second[i] + (1.0f - c.beta2) * g * g;
    first[i] = m;
    second[i] = v;
    master[i] = c.decay * master[i] - c.step_size * m / (std::sqrt(v) * c.inverse_root + c.eps);
  }
}

}  // namespace

void AdamW::step(double lr, double norm) {
  if (!std::isfinite(norm)) return;
  if (config_.grad_clip > 0 && norm > config_.grad_clip) gradient_.mul_(config_.grad_clip / (norm + 1e-6));
  ++updates_;
  if (outside_) return step_through_pieces(lr);
  for (const Range& range : ranges_)
    step(range,
         {moments_[first].narrow(0, range.begin, range.length),
          moments_[second].narrow(0, range.begin, range.length)},
         lr);
}

// While a piece is worked on, the next one comes and the one before goes: copies are made in the order in which
// they are asked for, so the buffer of the piece before may be read into as soon as that is said.
void AdamW::step_through_pieces(double lr) {
  std::vector<Range> pieces;
  for (const Range& range : ranges_)
    for (int64_t done = 0; done < range.length; done += kPiece)
      pieces.push_back({range.begin + done, std::min(kPiece, range.length - done), range.decays});
  if (pieces.empty()) return;
  const int64_t longest = std::ranges::max_element(pieces, {}, &Range::length)->length;
  struct Buffer {
    std::array<at::Tensor, 2> moments;
    memory::Outside::Copy way_in;  // of the second moment, behind that of the first
  };
  std::array<Buffer, 3> buffers;
  std::vector<memory::Outside::Copy> ways_out;
  const auto part = [&](size_t k, Moment which) {
    return buffers[k % buffers.size()].moments[which].narrow(0, 0, pieces[k].length);
  };
  const auto move = [&](size_t k, bool out) {
    for (const Moment which : {first, second}) {
      const int64_t at = pieces[k].begin * static_cast<int64_t>(sizeof(float));
      if (out)
        ways_out.push_back(outside_->write(slots_[which], part(k, which), at));
      else
        buffers[k % buffers.size()].way_in = outside_->read(slots_[which], part(k, which), at);
    }
  };
  for (size_t k = 0; k < std::min(buffers.size(), pieces.size()); ++k)
    for (const Moment which : {first, second})
      buffers[k].moments[which] = at::empty({longest}, masters_.options());
  move(0, false);
  for (size_t k = 0; k < pieces.size(); ++k) {
    if (k + 1 < pieces.size()) move(k + 1, false);
    buffers[k % buffers.size()].way_in.get();
    step(pieces[k], {part(k, first), part(k, second)}, lr);
    move(k, true);
  }
  for (const memory::Outside::Copy& copy : ways_out) copy.get();
}

void AdamW::step(const Range& range, const Moments& moments, double lr) {
  masters_.is_cpu() ? step_here(range, moments, lr) : step_on_device(range, moments, lr);
}

void AdamW::step_here(const Range& range, const Moments& moments, double lr) {
  constexpr int64_t kGrain = 1 << 16;
  const auto count = static_cast<double>(updates_);
  const Constants constants{static_cast<float>(1.0 - lr * (range.decays ? config_.weight_decay : 0.0)),
                            static_cast<float>(config_.beta1),
                            static_cast<float>(config_.beta2),
                            static_cast<float>(lr / (1.0 - std::pow(config_.beta1, count))),
                            static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(config_.beta2, count))),
                            static_cast<float>(config_.eps)};
  const auto* gradient = gradient_.const_data_ptr<float>() + range.begin;
  auto* master = masters_.mutable_data_ptr<float>() + range.begin;
  auto* m = moments.first.mutable_data_ptr<float>();
  auto* v = moments.second.mutable_data_ptr<float>();
  at::parallel_for(0, range.length, kGrain, [&](int64_t begin, int64_t end) {
    update(constants, end - begin, gradient + begin, master + begin, m + begin, v + begin);
  });
}

void AdamW::step_on_device(const Range& range, const Moments& moments, double lr) {
  const at::Tensor count = at::full({}, static_cast<double>(updates_), gradient_.options());
  const auto part = [&](const at::Tensor& flat) {
    return std::vector<at::Tensor>{flat.narrow(0, range.begin, range.length)};
  };
  std::vector<at::Tensor> m{moments.first}, v{moments.second};
  at::_fused_adamw_(part(masters_), part(gradient_), m, v, {}, {count}, lr, config_.beta1, config_.beta2,
                    range.decays ? config_.weight_decay : 0.0, config_.eps,
                    /*amsgrad=*/false, /*maximize=*/false);
}

double AdamW::step(double lr) {
  const double norm = at::linalg_vector_norm(gradient_, 2, {}, false, at::kDouble).item<double>();
  step(lr, norm);
  return norm;
}

double learning_rate(const OptimConfig& config, int64_t step, int64_t total_steps) {
  if (step < config.lr_warmup_steps)
    return config.lr * static_cast<double>(step + 1) / static_cast<double>(config.lr_warmup_steps);
  const int64_t span = std::max<int64_t>(1, total_steps - config.lr_warmup_steps);
  const double progress =
      std::min(1.0, static_cast<double>(step - config.lr_warmup_steps) / static_cast<double>(span));
  if (config.lr_scheduler_type == "constant") return config.lr;
  const double remaining = config.lr_scheduler_type == "linear"
                               ? 1.0 - progress
                               : 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
  return config.lr * (config.min_lr_ratio + (1.0 - config.min_lr_ratio) * remaining);
}

}  // namespace trireme::optim
