#include "trainer/steps/token_values.h"

#include <ATen/core/grad_mode.h>
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

void score_tokens(const models::Decoder& decoder, std::vector<Group>& groups, double temperature,
                  int64_t max_rows, const std::function<void(Sample&, std::vector<float>)>& store,
                  sharding::TrainedParameters* sharded) {
  const at::NoGradGuard no_gradients;
  const std::vector<MicroBatch> micros = pack_groups(groups, max_rows);
  if (sharded) sharded->begin_forwards(micros.size());
  for (const MicroBatch& micro : micros) {
    const at::Tensor hidden = decoder.forward_packed(micro.batch);
    const at::Tensor log_probs =
        decoder.token_log_probs(hidden, micro.rows, micro.tokens, temperature).log_probs_N.cpu();
    const float* numbers = log_probs.const_data_ptr<float>();
    for (const PackedSample& packed : micro.samples)
      store(*packed.sample,
            std::vector<float>(numbers + packed.begin, numbers + packed.begin + packed.sample->length()));
  }
  if (sharded) sharded->end_forwards();
}

int64_t tokens_of(const std::vector<Group>& groups) {
  int64_t tokens = 0;
  for (const Group& group : groups)
    for (const Sample& sample : group.samples)
      tokens += static_cast<int64_t>(group.prompt.size()) + sample.length();
  return tokens;
}

}  // namespace trireme::steps
