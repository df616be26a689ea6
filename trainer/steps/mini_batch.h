// What one optimizer update makes of its groups, the policy's and the critic's alike: micro-batches, what the
// mini-batch counts, and numbers beside the micro-batches' tokens.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "runtime/comm/communicator.h"
#include "trainer/losses/aggregation.h"
#include "trainer/steps/group.h"
#include "trainer/steps/packing.h"

namespace trireme::steps {

/// `update` for each `size` prompts of those from `first_id` to `last_id`, with this rank's groups of them, of
/// which there may be none. A mini-batch is a range of ids, the same for any number of ranks; `groups` are put
/// in their order. Collective over: what `update` is.
void for_each_mini_batch(std::vector<Group>& groups, int64_t first_id, int64_t last_id, int64_t size,
                         const std::function<void(std::span<Group>)>& update);

/// Of at most `size` rows; where sums are `exact`, of one group each, whatever fits beside it.
std::vector<MicroBatch> micro_batches(std::span<Group> groups, const PassSize& size, bool exact);

/// What counts in the mini-batch, its groups on all ranks; `scale` is left to the caller. Collective over:
/// `replicas`, which takes tensors on `device`.
losses::BatchTotals totals_of(std::span<const Group> groups, comm::Communicator& replicas, at::Device device);

/// Everything of a micro-batch that stands beside its tokens, fp32 [pairs]. Borrows the micro-batch.
class Beside {
 public:
  Beside(const MicroBatch& micro, at::Device device) : micro_(micro), device_(device) {}

  at::Tensor list(std::vector<float> Sample::*values) const;
  /// One number for all tokens of a response that are learned from; 0 for the others.
  at::Tensor of_responses(const std::function<double(const Sample&)>& value) const;
  at::Tensor weights(const std::string& aggregation, const losses::BatchTotals& totals) const;
  /// 1 / the mini-batch's tokens.
  at::Tensor shares(const losses::BatchTotals& totals) const;
  /// Tokens of each response, int64.
  at::Tensor lengths() const;

 private:
  const MicroBatch& micro_;
  at::Device device_;
};

}  // namespace trireme::steps
