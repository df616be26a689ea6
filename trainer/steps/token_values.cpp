#include "trainer/steps/token_values.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

namespace trireme::steps {

at::Tensor per_token(const MicroBatch& micro, at::Device device,
                     const std::function<double(const Sample&, int64_t)>& value) {
  std::vector<float> numbers(static_cast<size_t>(micro.num_pairs()));
  for (const PackedSample& packed : micro.samples)
    for (int64_t t = 0; t < packed.sample->length(); ++t)
      numbers[static_cast<size_t>(packed.begin + t)] = static_cast<float>(value(*packed.sample, t));
  return at::from_blob(numbers.data(), {micro.num_pairs()}, at::kFloat).clone().to(device);
}

namespace {

// Forward passes without gradients; `numbers` makes one of each pair, `store` gets each sample with its own.
// The numbers are made on the last stage, and all stages go on with them.
void for_each_sample(sharding::Pipeline& passes, std::vector<Group>& groups, int64_t max_rows,
                     const std::function<at::Tensor(const at::Tensor& hidden, const MicroBatch&)>& numbers,
                     const std::function<void(Sample&, std::vector<float>)>& store) {
  const std::vector<MicroBatch> micros = pack_groups(groups, {max_rows, passes.decoder()});
  std::vector<int64_t> begins{0};
  for (const MicroBatch& micro : micros) begins.push_back(begins.back() + micro.num_pairs());
  at::Tensor all = at::empty({begins.back()}, at::kFloat);
  passes.read(
      micros.size(), [&](size_t k) -> const models::ForwardBatch& { return micros[k].batch; },
      [&](size_t k, const at::Tensor& hidden) {
        all.narrow(0, begins[k], micros[k].num_pairs()).copy_(numbers(hidden, micros[k]));
      });
  passes.share(all);
  const float* first = all.const_data_ptr<float>();
  for (size_t k = 0; k < micros.size(); first += micros[k].num_pairs(), ++k)
    for (const PackedSample& packed : micros[k].samples)
      store(*packed.sample, {first + packed.begin, first + packed.begin + packed.sample->length()});
}

}  // namespace

void score_tokens(sharding::Pipeline& passes, std::vector<Group>& groups, double temperature,
                  int64_t max_rows, const std::function<void(Sample&, std::vector<float>)>& store) {
  for_each_sample(
      passes, groups, max_rows,
      [&](const at::Tensor& hidden, const MicroBatch& micro) {
        return passes.decoder().token_log_probs(hidden, micro.rows, micro.tokens, temperature).log_probs_N;
      },
      store);
}

void value_tokens(sharding::Pipeline& critic, std::vector<Group>& groups, int64_t max_rows) {
  for_each_sample(
      critic, groups, max_rows,
      [&](const at::Tensor& hidden, const MicroBatch& micro) {
        return critic.decoder().row_values(hidden, micro.rows);
      },
      [](Sample& sample, std::vector<float> values) { sample.values = std::move(values); });
}

int64_t tokens_of(std::span<const Group> groups) {
  int64_t tokens = 0;
  for (const Group& group : groups)
    for (const Sample& sample : group.samples)
      tokens += static_cast<int64_t>(group.prompt.size()) + sample.length();
  return tokens;
}

}  // namespace trireme::steps
