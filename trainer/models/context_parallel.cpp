#include "trainer/models/context_parallel.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include "trainer/models/row_index.h"
#include "trainer/models/tensor_view.h"

namespace trireme::models {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

struct Columns {
  int64_t begin, length;
};

// Which columns of a row belong to each rank: as many to all, and some perhaps to several.
struct ColumnShares : torch::CustomClassHolder {
  std::vector<std::vector<Columns>> of_rank;
  int64_t width = 0;  // of a whole row
  bool repeats = false;

  int64_t share() const {
    int64_t columns = 0;
    for (const Columns& part : of_rank.front()) columns += part.length;
    return columns;
  }
};
using Shares = c10::intrusive_ptr<ColumnShares>;

Shares shares_of_qkv(const AttentionDims& dims, const AttentionDims& share, int ranks) {
  auto result = c10::make_intrusive<ColumnShares>();
  result->width = dims.qkv_width();
  result->repeats = share.kv_heads * ranks > dims.kv_heads;
  const int64_t group = dims.heads / dims.kv_heads, hd = dims.head_dim;
  for (int r = 0; r < ranks; ++r) {
    const int64_t head = r * share.heads, kv_head = head / group;
    result->of_rank.push_back({{head * hd, share.heads * hd},
                               {(dims.heads + kv_head) * hd, share.kv_heads * hd},
                               {(dims.heads + dims.kv_heads + kv_head) * hd, share.kv_heads * hd}});
  }
  return result;
}

Shares shares_of_heads(const AttentionDims& dims, const AttentionDims& share, int ranks) {
  auto result = c10::make_intrusive<ColumnShares>();
  result->width = dims.heads * dims.head_dim;
  for (int r = 0; r < ranks; ++r)
    result->of_rank.push_back({{r * share.heads * dims.head_dim, share.heads * dims.head_dim}});
  return result;
}

std::vector<int64_t> times(std::vector<int64_t> counts, int64_t factor) {
  for (int64_t& count : counts) count *= factor;
  return counts;
}

int64_t sum_of(const std::vector<int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

// This rank's rows, whole, to all rows of its columns: [T_c, width] -> [T, share].
at::Tensor rows_to_columns(const at::Tensor& mine, const ColumnShares& columns, comm::Communicator& group,
                           const std::vector<int64_t>& rows) {
  const int64_t share = columns.share(), own = mine.size(0);
  const auto ranks = static_cast<int64_t>(rows.size());
  const at::Tensor out = at::empty({ranks, own, share}, mine.options());
  for (int64_t r = 0; r < ranks; ++r) {
    int64_t at = 0;
    for (const Columns& part : columns.of_rank[static_cast<size_t>(r)]) {
      out[r].narrow(1, at, part.length).copy_(mine.narrow(1, part.begin, part.length));
      at += part.length;
    }
  }
  const at::Tensor all = at::empty({sum_of(rows), share}, mine.options());
  group.all_to_all_v(view_of(out), std::vector<int64_t>(rows.size(), own * share), view_of(all),
                     times(rows, share));
  return all;
}

// And back: [T, share] -> [T_c, width]. Columns that several ranks have are summed, in their order.
at::Tensor columns_to_rows(const at::Tensor& all, const ColumnShares& columns, comm::Communicator& group,
                           const std::vector<int64_t>& rows) {
  const int64_t share = columns.share(), own = rows[static_cast<size_t>(group.rank())];
  const auto ranks = static_cast<int64_t>(rows.size());
  const at::Tensor in = at::empty({ranks, own, share}, all.options()), from = all.contiguous();
  group.all_to_all_v(view_of(from), times(rows, share), view_of(in),
                     std::vector<int64_t>(rows.size(), own * share));
  const at::Tensor mine = columns.repeats ? at::zeros({own, columns.width}, all.options().dtype(at::kFloat))
                                          : at::empty({own, columns.width}, all.options());
  for (int64_t r = 0; r < ranks; ++r) {
    int64_t at = 0;
    for (const Columns& part : columns.of_rank[static_cast<size_t>(r)]) {
      const at::Tensor from_rank = in[r].narrow(1, at, part.length);
      const at::Tensor to = mine.narrow(1, part.begin, part.length);
      columns.repeats ? to.add_(from_rank) : to.copy_(from_rank);
      at += part.length;
    }
  }
  return mine.to(all.scalar_type());
}

struct KeptPlan : torch::CustomClassHolder {
  explicit KeptPlan(std::shared_ptr<const ContextPlan> kept) : plan(std::move(kept)) {}
  std::shared_ptr<const ContextPlan> plan;
};

void keep(AutogradContext* ctx, std::shared_ptr<const ContextPlan> plan) {
  ctx->saved_data["plan"] = c10::IValue::make_capsule(c10::make_intrusive<KeptPlan>(std::move(plan)));
}
const ContextPlan& kept(AutogradContext* ctx) {
  return *static_cast<const KeptPlan&>(*ctx->saved_data["plan"].toCapsule()).plan;
}
void keep(AutogradContext* ctx, const Shares& columns) {
  ctx->saved_data["columns"] = c10::IValue::make_capsule(columns);
}
const ColumnShares& kept_columns(AutogradContext* ctx) {
  return static_cast<const ColumnShares&>(*ctx->saved_data["columns"].toCapsule());
}

struct ToColumns : Function<ToColumns> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& mine, const Shares& columns,
                            const std::shared_ptr<const ContextPlan>& plan) {
    keep(ctx, plan);
    keep(ctx, columns);
    return rows_to_columns(mine, *columns, *plan->context.group, plan->shares);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const ContextPlan& plan = kept(ctx);
    return {columns_to_rows(grads[0], kept_columns(ctx), *plan.context.group, plan.shares), at::Tensor(),
            at::Tensor()};
  }
};

struct ToRows : Function<ToRows> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& all, const Shares& columns,
                            const std::shared_ptr<const ContextPlan>& plan) {
    keep(ctx, plan);
    keep(ctx, columns);
    return columns_to_rows(all, *columns, *plan->context.group, plan->shares);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const ContextPlan& plan = kept(ctx);
    return {rows_to_columns(grads[0], kept_columns(ctx), *plan.context.group, plan.shares), at::Tensor(),
            at::Tensor()};
  }
};

// Where the rows of each rank are among `rows`, rank after rank.
std::vector<std::vector<int64_t>> places_of_ranks(std::span<const int32_t> rows,
                                                  const std::vector<int64_t>& shares) {
  std::vector<int64_t> ends(shares.size());
  std::partial_sum(shares.begin(), shares.end(), ends.begin());
  std::vector<std::vector<int64_t>> places(shares.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto rank = std::upper_bound(ends.begin(), ends.end(), rows[i]) - ends.begin();
    places[static_cast<size_t>(rank)].push_back(static_cast<int64_t>(i));
  }
  return places;
}

struct GatherByRow : Function<GatherByRow> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& mine, std::span<const int32_t> rows,
                            const std::vector<int64_t>& shares, comm::Communicator* group) {
    const auto places = places_of_ranks(rows, shares);
    std::vector<int64_t> counts, order;
    for (const auto& of_rank : places) {
      counts.push_back(static_cast<int64_t>(of_rank.size()));
      order.insert(order.end(), of_rank.begin(), of_rank.end());
    }
    const at::Tensor in = mine.contiguous();
    const at::Tensor by_rank = at::empty({static_cast<int64_t>(rows.size())}, mine.options());
    group->all_gather_v(view_of(in), view_of(by_rank), counts);
    ctx->save_for_backward({int64_tensor(places[static_cast<size_t>(group->rank())], mine.device())});
    return at::empty_like(by_rank).index_copy_(0, int64_tensor(order, mine.device()), by_rank);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    return {grads[0].index_select(0, ctx->get_saved_variables()[0]), at::Tensor(), at::Tensor(),
            at::Tensor()};
  }
};

}  // namespace

std::optional<AttentionDims> head_share(const AttentionDims& dims, int ranks) {
  if (dims.heads % ranks != 0) return std::nullopt;
  const int64_t heads = dims.heads / ranks, group = dims.heads / dims.kv_heads;
  if (heads % group != 0 && group % heads != 0) return std::nullopt;
  return AttentionDims{heads, std::max<int64_t>(1, heads / group), dims.head_dim};
}

int64_t ContextPlan::first_row() const {
  return std::accumulate(shares.begin(), shares.begin() + context.rank(), int64_t{0});
}

std::shared_ptr<ContextPlan> plan_context(const ForwardBatch& batch, const AttentionDims& dims,
                                          const ContextParallel& context, bool on_gpu) {
  auto plan = std::make_shared<ContextPlan>();
  plan->context = context;
  plan->shares = rows_of_ranks(batch.num_rows(), context.size());
  plan->ring = context.ring || !head_share(dims, context.size());
  if (!plan->ring) return plan;
  plan->windows = key_windows(batch, context.size(), context.rank(),
                              on_gpu ? std::numeric_limits<int64_t>::max() : plan->shares.front());
  const int64_t first = plan->first_row(), last = first + plan->rows();
  const auto own = [&](const std::vector<int32_t>& all) {
    return std::vector<int32_t>(all.begin() + first, all.begin() + last);
  };
  plan->mine = {own(batch.tokens), own(batch.positions), own(batch.slots), plan->windows.front().segments};
  return plan;
}

at::Tensor context_attention(const at::Tensor& qkv, const AttentionDims& dims, const BatchPlan& plan) {
  const ContextPlan& context = *plan.context;
  if (context.ring) return ring_attention(qkv, dims, plan);
  const int ranks = context.context.size();
  const AttentionDims share = *head_share(dims, ranks);
  const at::Tensor all = ToColumns::apply(qkv.contiguous(), shares_of_qkv(dims, share, ranks), plan.context);
  return ToRows::apply(attention_packed(all, share, context.whole), shares_of_heads(dims, share, ranks),
                       plan.context);
}

at::Tensor gather_by_row(const at::Tensor& mine, std::span<const int32_t> rows,
                         const std::vector<int64_t>& shares, const ContextParallel& context) {
  return GatherByRow::apply(mine, rows, shares, context.group);
}

}  // namespace trireme::models
