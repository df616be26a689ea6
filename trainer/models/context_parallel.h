// One replica's sequences on several ranks (context parallelism). Each rank computes its stretch of the rows
// of every batch (context_split.h); what a row needs of others, it needs in attention alone. Two ways, with
// the same bits as on one rank in the forward pass:
//
//   heads  an all-to-all brings a share of the heads of all rows to each rank, which attends as one rank
//   would,
//          and another brings the results back (DeepSpeed-Ulysses, arXiv:2309.14509). Where heads divide.
//   ring   rows stay; keys and values come round, a window of positions at a time, in ascending order, and a
//          row's softmax goes on from window to window (ring attention, arXiv:2310.01889).
//
// Every function here is collective over the group, in the same order on all of its ranks.
//
// Legend: T rows of a batch, T_c those of rank c.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "runtime/comm/communicator.h"
#include "trainer/models/context_split.h"
#include "trainer/models/ops.h"

namespace trireme::models {

struct ContextParallel {
  comm::Communicator* group = nullptr;  // null: all rows are here
  bool ring = false;                    // even where heads divide

  int size() const { return group ? group->size() : 1; }
  int rank() const { return group ? group->rank() : 0; }
  bool is_split() const { return size() > 1; }
};

/// The heads of each of `ranks` ranks that share out `dims`: a kv head is repeated where several ranks have
/// heads of its group. Empty where heads do not divide so.
std::optional<AttentionDims> head_share(const AttentionDims& dims, int ranks);

/// What all layers' attention shares, computed once a forward.
struct ContextPlan {
  ContextParallel context;
  std::vector<int64_t> shares;  // rows of each rank
  bool ring = false;
  BatchPlan whole;                 // heads: of all rows
  ForwardBatch mine;               // ring: this rank's rows, with the first window's segments
  std::vector<KeyWindow> windows;  // ring; one for all keys on a GPU

  int64_t rows() const { return shares[static_cast<size_t>(context.rank())]; }  // of this rank
  int64_t first_row() const;
};

/// All but `whole`. Windows are of about as many rows as a rank has.
std::shared_ptr<ContextPlan> plan_context(const ForwardBatch& batch, const AttentionDims& dims,
                                          const ContextParallel& context, bool on_gpu);

/// As attention_packed(): qkv [T_c, qkv_width] of this rank's rows -> [T_c, heads * head_dim]. `plan` is of
/// this rank's rows, and has plan.context.
at::Tensor context_attention(const at::Tensor& qkv, const AttentionDims& dims, const BatchPlan& plan);
/// The way of the ring, whatever the heads.
at::Tensor ring_attention(const at::Tensor& qkv, const AttentionDims& dims, const BatchPlan& plan);

/// Numbers of some of a batch's rows, each found by the rank that has the row, on all ranks: mine [those of
/// rows[i] that are this rank's, in order] -> [rows.size()]. The gradient goes to each rank's own: what all
/// ranks make of the numbers alike counts once.
at::Tensor gather_by_row(const at::Tensor& mine, std::span<const int32_t> rows,
                         const std::vector<int64_t>& shares, const ContextParallel& context);

}  // namespace trireme::models
