#include "trainer/costs/generation_time.h"

#include <algorithm>
#include <cmath>

namespace trireme::costs {

ResponseLengths::ResponseLengths(double mean, double limit, double spread)
    : mean_(std::clamp(mean, 1.0, limit * 0.995)), limit_(limit) {
  constexpr int kPoints = 257;
  const double mu = mean_ / limit_, a = mu * spread - 1, b = (1 - mu) * spread - 1;
  longer_.assign(kPoints, 0);
  left_.assign(kPoints, 0);
  // Cells between the points; logarithms, since the powers run far.
  std::vector<double> mass(kPoints - 1);
  double all = 0, first = 0;
  const auto place = [](int i) { return (i + 0.5) / (kPoints - 1); };
  for (int i = 0; i + 1 < kPoints; ++i) mass[i] = a * std::log(place(i)) + b * std::log1p(-place(i));
  const double most = *std::ranges::max_element(mass);
  for (int i = 0; i + 1 < kPoints; ++i) {
    mass[i] = std::exp(mass[i] - most);
    all += mass[i];
    first += mass[i] * place(i);
  }
  // Cells are coarse where the density has a pole: the mean is put right by moving it to an end.
  double at_end = 0, at_start = 0;
  const double off = mu - first / all;
  (off > 0 ? at_end : at_start) = std::abs(off) / (off > 0 ? 1 - first / all : first / all);
  const double kept = 1 - at_end - at_start;
  longer_[kPoints - 1] = at_end;
  for (int i = kPoints - 2; i >= 0; --i) longer_[i] = std::min(1.0, longer_[i + 1] + mass[i] / all * kept);
  longer_[0] = 1;
  const double cell = limit_ / (kPoints - 1);
  for (int i = kPoints - 2; i >= 0; --i) {
    const double between = 0.5 * (longer_[i] + longer_[i + 1]) * cell;
    left_[i] = left_[i + 1] + between / mean_;
    second_moment_ += 2 * (i + 0.5) * cell * between;
  }
  const double whole = left_[0];
  for (double& value : left_) value /= whole;
}

double ResponseLengths::at(const std::vector<double>& values, double tokens) const {
  const double place = std::clamp(tokens / limit_, 0.0, 1.0) * static_cast<double>(values.size() - 1);
  const auto below = std::min(static_cast<size_t>(place), values.size() - 2);
  const double between = place - static_cast<double>(below);
  return values[below] * (1 - between) + values[below + 1] * between;
}

double ResponseLengths::longest_of(double count) const {
  for (size_t i = 0; i < longer_.size(); ++i)
    if (longer_[i] <= 0.5 / std::max(1.0, count))
      return limit_ * static_cast<double>(i) / static_cast<double>(longer_.size() - 1);
  return limit_;
}

namespace {

struct StepCost {
  double seconds, communication, overhead;
};

}  // namespace

GenerationTime generation_time(const ModelShape& shape, const Target& target, const GenerationJob& job,
                               const ResponseLengths& lengths, const Machine& machine,
                               const Constants& constants) {
  const auto layers = static_cast<double>(shape.num_hidden_layers), tp = static_cast<double>(job.tp);
  const SliceSizes sizes = slice_sizes(shape, job.tp);
  const double weights = static_cast<double>(target.element) *
                         static_cast<double>(shape.num_hidden_layers * sizes.layer_matrices + sizes.head);
  const auto kv = static_cast<double>(shape.kv_bytes_per_token(target.element, job.tp));
  const double rate = machine.device.memory_rate * constants.of(Constant::decode_share),
               flops = machine.flops(target.fp32()) * constants.of(Constant::product_share);
  const RankLine tp_line{job.tp, 1};
  const auto of_row = static_cast<double>(shape.hidden_size * target.element);
  GenerationTime result;
  const auto step = [&](double batch, double context, double count) {
    const double bytes = weights + batch * context * kv;
    const double work =
        batch *
        (layers * (shape.flops_of_layer() + shape.flops_of_attention(context)) + shape.flops_of_head()) / tp;
    const double fixed =
        layers * constants.of(Constant::layer_seconds) + constants.of(Constant::decode_seconds);
    const LinkUse sum =
        ring(batch * of_row, tp_line, machine, constants).times(4 * layers);  // two all-reduces
    result.links += sum.times(count);
    result.communication += sum.seconds * count;
    result.overhead += fixed * count;
    result.steps += count;
    const double seconds = std::max(bytes / rate, work / flops) + fixed + sum.seconds;
    result.decode += seconds * count;
    return seconds * count;
  };
  const double slots = std::max(1.0, std::min(job.slots, job.sequences));
  double busy = 0;  // slots in use, summed over time
  const bool queued = job.sequences > slots;
  const double half_done = lengths.second_moment() / (2 * lengths.mean());
  if (queued) {
    const double tokens = job.sequences * lengths.mean() - slots * half_done;
    busy += slots * step(slots, job.prompt_tokens + half_done, tokens / slots);
  }
  const double end = lengths.longest_of(slots);
  constexpr int kPieces = 40;
  for (int i = 0; i < kPieces; ++i) {
    const double at = end * (i + 0.5) / kPieces;
    const double alive =
        std::max(1.0, slots * (queued ? lengths.left_more_than(at) : lengths.longer_than(at)));
    busy += alive * step(alive, job.prompt_tokens + at + (queued ? half_done : 0), end / kPieces);
  }
  result.idle_tail = result.decode - busy / slots;
  const double prompt_rows = job.prompts * job.prompt_tokens;
  result.prefill = prompt_rows * layers *
                   (shape.flops_of_layer() + shape.flops_of_attention(job.prompt_tokens / 2)) / tp / flops;
  const LinkUse sums = ring(prompt_rows * of_row, tp_line, machine, constants).times(4 * layers);
  result.prefill += sums.seconds;
  result.links += sums;
  return result;
}

}  // namespace trireme::costs
