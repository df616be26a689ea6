#include "trainer/steps/mini_batch.h"

#include <algorithm>

#include <ATen/TensorOperators.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include "trainer/models/tensor_view.h"
#include "trainer/steps/token_values.h"

namespace trireme::steps {

// Exact sums are made of gradients of one group each, whatever fits beside it.
void for_each_mini_batch(std::vector<Group>& groups, int64_t first_id, int64_t last_id, int64_t size,
                         const std::function<void(std::span<Group>)>& update) {
  std::sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) { return a.id < b.id; });
  const auto below = [&](int64_t id) {
    return std::partition_point(groups.begin(), groups.end(),
                                [&](const Group& group) { return group.id < id; });
  };
  for (int64_t first = first_id; first < last_id; first += size)
    update({below(first), below(std::min(first + size, last_id))});
}

std::vector<MicroBatch> micro_batches(std::span<Group> groups, const PassSize& size, bool exact) {
  if (!exact) return pack_groups(groups, size);
  std::vector<MicroBatch> result;
  for (Group& group : groups)
    for (MicroBatch& micro : pack_groups({&group, 1}, size.unlimited())) result.push_back(std::move(micro));
  return result;
}

losses::BatchTotals totals_of(std::span<const Group> groups, comm::Communicator& replicas,
                              at::Device device) {
  int64_t sequences = 0, tokens = 0;
  for (const Group& group : groups)
    for (const Sample& sample : group.samples) {
      sequences += sample.counted() > 0 ? 1 : 0;
      tokens += sample.counted();
    }
  at::Tensor counts = at::zeros({2}, at::kLong);
  counts[0] = sequences;
  counts[1] = tokens;
  counts = counts.to(device);  // where the group's communicator takes it
  replicas.all_reduce(models::view_of(counts));
  return {counts[0].item<int64_t>(), counts[1].item<int64_t>(), 0};
}

at::Tensor Beside::list(std::vector<float> Sample::*values) const {
  return per_token(micro_, device_,
                   [values](const Sample& s, int64_t t) { return (s.*values)[static_cast<size_t>(t)]; });
}

at::Tensor Beside::of_responses(const std::function<double(const Sample&)>& value) const {
  std::vector<float> numbers(static_cast<size_t>(micro_.num_pairs()), 0.0F);
  for (const PackedSample& packed : micro_.samples) {
    const auto number = static_cast<float>(value(*packed.sample));
    for (int64_t t = 0; t < packed.sample->length(); ++t)
      if (packed.sample->counts(t)) numbers[static_cast<size_t>(packed.begin + t)] = number;
  }
  return at::from_blob(numbers.data(), {micro_.num_pairs()}, at::kFloat).clone().to(device_);
}

at::Tensor Beside::weights(const std::string& aggregation, const losses::BatchTotals& totals) const {
  return of_responses(
      [&](const Sample& s) { return losses::token_weight(aggregation, s.counted(), totals); });
}

at::Tensor Beside::shares(const losses::BatchTotals& totals) const {
  return of_responses([&](const Sample&) { return 1.0 / static_cast<double>(totals.tokens); });
}

at::Tensor Beside::lengths() const {
  std::vector<int64_t> lengths;
  for (const PackedSample& packed : micro_.samples) lengths.push_back(packed.sample->length());
  return at::from_blob(lengths.data(), {static_cast<int64_t>(lengths.size())}, at::kLong).clone().to(device_);
}

}  // namespace trireme::steps
