// Replicas of one model over a group of ranks: gradients summed, weights kept equal.
#pragma once

#include "runtime/comm/communicator.h"
#include "trainer/models/parameter_set.h"

namespace trireme::sharding {

/// A view of a contiguous tensor's memory for a communicator.
comm::BufferView view_of(const at::Tensor& tensor);

/// Sums the gradients of all replicas; every rank ends with the same bits.
/// Collective over: `group`, all members. A loss is normalised over the whole batch, so the sum is the
/// gradient.
void sum_gradients(models::ParameterSet& parameters, comm::Communicator& group);

/// Everyone takes the masters of `root` (a rank of `group`). Collective over: `group`.
void broadcast_parameters(models::ParameterSet& parameters, comm::Communicator& group, int root);

/// Throws internal, naming the ranks, unless all replicas hold the same bits. Collective over: `group`.
void check_replicas(const models::ParameterSet& parameters, comm::Communicator& group);

}  // namespace trireme::sharding
