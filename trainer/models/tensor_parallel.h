// One replica of a model on several ranks (tensor parallelism): each holds heads, MLP columns and a piece of
// the vocabulary, and adds its part of every layer's output to the others'.
//
// In training the rows between the products are shared out too (sequence sharding, rows_of_ranks()): a rank
// norms its rows, all rows are gathered for a product, and the sum of its parts goes back to the rows'
// owners. In rollout, where rows are few, all ranks keep all of them. Sums add in rank order, so both come to
// the same bits. Where ranks share out the rows of a batch anyway (context_parallel.h), T are those of this
// rank's group.
//
// Every function here is collective over the group, in the same order on all of its ranks.
//
// Legend: T rows, T_t those of rank t, D hidden size, V vocab_size, V_t the piece of rank t.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "runtime/comm/communicator.h"
#include "trainer/models/context_split.h"
#include "trainer/models/ops.h"

namespace trireme::models {

struct TensorParallel {
  comm::Communicator* group = nullptr;  // null: the whole model is here

  int size() const { return group ? group->size() : 1; }
  int rank() const { return group ? group->rank() : 0; }
  bool is_split() const { return size() > 1; }
};

/// [T_t, D] of every rank -> [T, D]. Its gradient is summed over ranks, each of which gets that of its rows.
at::Tensor gather_rows(const at::Tensor& mine, const TensorParallel& tp, int64_t rows);
/// The sum over ranks of [T, D], of which each gets its rows, [T_t, D].
at::Tensor scatter_sum(const at::Tensor& part, const TensorParallel& tp);
/// The same sum, all of it on all ranks; `part` is used up. No graph.
at::Tensor sum_over_ranks(const at::Tensor& part, const TensorParallel& tp);

/// This rank's part of the embedding of all rows, [T, D]: zeros where a token is not in its piece of the
/// vocabulary, whose first token is `first`.
at::Tensor embedding_part(const Weight& piece, int64_t first, const BatchPlan& plan, bool train);

/// x + bias, [T, out]: where the product before was summed over ranks.
at::Tensor add_bias(const at::Tensor& x, const Weight& bias);

/// The logits of all ranks' pieces side by side: [N, V_t] -> [N, V]. `pieces`: V_t of every rank. No graph.
at::Tensor gather_columns(const at::Tensor& mine, const TensorParallel& tp,
                          const std::vector<int64_t>& pieces);

}  // namespace trireme::models
