// Numbers that stand beside the response tokens of a batch.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "trainer/models/decoder.h"
#include "trainer/sharding/trained_parameters.h"
#include "trainer/steps/group.h"
#include "trainer/steps/packing.h"

namespace trireme::steps {

/// One fp32 number for each pair of a micro-batch, from its sample and its place in the response.
at::Tensor per_token(const MicroBatch& micro, at::Device device,
                     const std::function<double(const Sample&, int64_t)>& value);

/// Log-probabilities of all samples' tokens under a decoder, at `temperature`, without gradients; `store`
/// gets each sample with its numbers. Forward passes of at most `max_rows` rows. `sharded`: what the
/// decoder's weights are a part of, where the dp ranks must take part in each other's passes (collective over
/// them).
void score_tokens(const models::Decoder& decoder, std::vector<Group>& groups, double temperature,
                  int64_t max_rows, const std::function<void(Sample&, std::vector<float>)>& store,
                  sharding::TrainedParameters* sharded = nullptr);

/// Prompt and response tokens, a prompt counted with each of its responses.
int64_t tokens_of(const std::vector<Group>& groups);

}  // namespace trireme::steps
