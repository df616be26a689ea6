// Numbers that stand beside the response tokens of a batch.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "trainer/sharding/pipeline.h"
#include "trainer/steps/group.h"
#include "trainer/steps/packing.h"

namespace trireme::steps {

/// One fp32 number for each pair of a micro-batch, from its sample and its place in the response.
at::Tensor per_token(const MicroBatch& micro, at::Device device,
                     const std::function<double(const Sample&, int64_t)>& value);

/// Log-probabilities of all samples' tokens under a model, at `temperature`, without gradients; `store` gets
/// each sample with its numbers, on all ranks of the replica. Forward passes of at most `max_rows` rows a
/// rank. Collective as `passes` are.
void score_tokens(sharding::Pipeline& passes, std::vector<Group>& groups, double temperature,
                  int64_t max_rows, const std::function<void(Sample&, std::vector<float>)>& store);

/// The values that a critic gives all samples' tokens, by their states before each token; the same otherwise.
void value_tokens(sharding::Pipeline& critic, std::vector<Group>& groups, int64_t max_rows);

/// Prompt and response tokens, a prompt counted with each of its responses.
int64_t tokens_of(std::span<const Group> groups);

}  // namespace trireme::steps
