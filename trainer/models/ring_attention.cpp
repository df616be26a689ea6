// Attention over keys and values that come round, a window of positions at a time (context_parallel.h).
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include "trainer/models/attention_runs.h"
#include "trainer/models/context_parallel.h"
#include "trainer/models/device_ops.h"
#include "trainer/models/kernel_arguments.h"
#include "trainer/models/row_index.h"
#include "trainer/models/tensor_view.h"

namespace trireme::models {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

struct KeptPlan : torch::CustomClassHolder {
  explicit KeptPlan(std::shared_ptr<const ContextPlan> kept) : plan(std::move(kept)) {}
  std::shared_ptr<const ContextPlan> plan;
};

// The keys and values of a window on their way here, [S, 2 kv_heads * head_dim]: keys, then values.
class ComingWindow {
 public:
  ComingWindow(const at::Tensor& rotated, const AttentionDims& dims, const KeyWindow& window,
               comm::Communicator& group) {
    const int64_t width = 2 * dims.kv_heads * dims.head_dim;
    sent_ = rotated.narrow(1, dims.heads * dims.head_dim, width)
                .index_select(0, int64_tensor(window.sent, rotated.device()));
    std::vector<int64_t> counts;
    int64_t rows = 0;
    for (const int64_t count : window.counts) {
      counts.push_back(count * width);
      rows += count;
    }
    all_ = at::empty({rows, width}, rotated.options());
    work_ = group.all_gather_v_async(view_of(sent_), view_of(all_), counts);
  }
  const at::Tensor& arrived() {
    if (work_) work_->join();
    work_ = nullptr;
    return all_;
  }

 private:
  at::Tensor sent_, all_;
  comm::WorkHandle work_;
};

// body(window, keys and values) for each window, while the next one is on its way.
template <typename Body>
void for_each_window(const at::Tensor& rotated, const AttentionDims& dims, const ContextPlan& plan,
                     const Body& body) {
  std::optional<ComingWindow> next;
  for (size_t w = 0; w < plan.windows.size(); ++w) {
    if (w == 0) next.emplace(rotated, dims, plan.windows[0], *plan.context.group);
    ComingWindow here = std::move(*next);
    next.reset();
    const at::Tensor arrived = here.arrived();
    if (w + 1 < plan.windows.size()) next.emplace(rotated, dims, plan.windows[w + 1], *plan.context.group);
    body(plan.windows[w], arrived);
  }
}

AttentionForward task_of(const at::Tensor& rotated, const at::Tensor& window, const AttentionDims& dims,
                         const at::Tensor& out, const at::Tensor& lse) {
  AttentionForward task{};
  task.shape = kernel_shape(dims);
  task.element = element_of(rotated);
  task.q = rotated.const_data_ptr();
  task.q_stride = rotated.stride(0);
  task.keys = window.const_data_ptr();
  task.values = element(window, dims.kv_heads * dims.head_dim);
  task.kv_stride = window.stride(0);
  task.out = out.mutable_data_ptr();
  task.lse = lse.mutable_data_ptr<float>();
  return task;
}

struct RingFunction : Function<RingFunction> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& qkv, const AttentionDims& dims,
                            const BatchPlan& plan) {
    const int64_t rows = qkv.size(0);
    const at::Tensor rotated = at::empty_like(qkv);
    run_rotary(rotary_in_rows(qkv, dims, plan.positions_T, plan.rope, rotated));
    const at::Tensor out = at::empty({rows, dims.heads * dims.head_dim}, qkv.options());
    const at::Tensor lse = at::empty({rows, dims.heads}, at::kFloat);
    // Room for where each row's softmax stands; one window is all there is to some batches.
    at::Tensor state, weighted;
    if (plan.context->windows.size() > 1) {
      state = at::empty({2, rows, dims.heads}, at::kFloat);
      weighted = at::empty({rows, dims.heads * dims.head_dim}, at::kFloat);
    }
    for_each_window(rotated, dims, *plan.context, [&](const KeyWindow& window, const at::Tensor& keys) {
      AttentionForward task = task_of(rotated, keys, dims, out, lse);
      if (state.defined())
        task.state = {state[0].mutable_data_ptr<float>(), state[1].mutable_data_ptr<float>(),
                      weighted.mutable_data_ptr<float>()};
      run_attention(task, window.segments, {window.begin, window.end});
    });
    ctx->save_for_backward({rotated, out, lse, plan.positions_T, plan.rope});
    ctx->saved_data["heads"] = dims.heads;
    ctx->saved_data["kv_heads"] = dims.kv_heads;
    ctx->saved_data["head_dim"] = dims.head_dim;
    ctx->saved_data["plan"] = c10::IValue::make_capsule(c10::make_intrusive<KeptPlan>(plan.context));
    return out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &rotated = saved[0], &out = saved[1], &lse = saved[2];
    const AttentionDims dims{ctx->saved_data["heads"].toInt(), ctx->saved_data["kv_heads"].toInt(),
                             ctx->saved_data["head_dim"].toInt()};
    const ContextPlan& plan = *static_cast<const KeptPlan&>(*ctx->saved_data["plan"].toCapsule()).plan;
    const at::Tensor grad = grads[0].contiguous();
    const int64_t rows = rotated.size(0), kv_width = dims.kv_heads * dims.head_dim;
    const at::Tensor grad_q = at::empty({rows, dims.heads * dims.head_dim}, at::kFloat);
    const at::Tensor grad_kv = at::empty({2, rows, kv_width}, at::kFloat);
    for_each_window(rotated, dims, plan, [&](const KeyWindow& window, const at::Tensor& keys) {
      const at::Tensor of_window = at::zeros({2, keys.size(0), kv_width}, at::kFloat);
      AttentionBackward task{};
      task.forward = task_of(rotated, keys, dims, out, lse);
      task.grad_out = grad.const_data_ptr();
      task.grad_q = grad_q.mutable_data_ptr<float>();
      task.grad_keys = of_window[0].mutable_data_ptr<float>();
      task.grad_values = of_window[1].mutable_data_ptr<float>();
      run_attention_backward(task, window.segments, {window.begin, window.end});
      // Each row's keys are in one window: what all ranks add up to is their gradient.
      std::vector<int64_t> counts;
      for (const int64_t count : window.counts) counts.push_back(count * kv_width);
      const at::Tensor index = int64_tensor(window.sent, rotated.device());
      for (const int64_t part : {0, 1}) {
        const at::Tensor mine = at::empty({index.size(0), kv_width}, at::kFloat);
        plan.context.group->reduce_scatter_v(view_of(of_window[part]), view_of(mine), counts);
        grad_kv[part].index_copy_(0, index, mine);
      }
    });
    const at::Tensor result = at::empty_like(rotated);
    run_rotary_backward({.shape = kernel_shape(dims),
                         .element = element_of(rotated),
                         .rows = rows,
                         .positions = saved[3].const_data_ptr<int32_t>(),
                         .table = saved[4].const_data_ptr<float>(),
                         .grad_q = grad_q.const_data_ptr<float>(),
                         .grad_keys = grad_kv[0].const_data_ptr<float>(),
                         .grad_values = grad_kv[1].const_data_ptr<float>(),
                         .grad_qkv = result.mutable_data_ptr()});
    return {result, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor ring_attention(const at::Tensor& qkv, const AttentionDims& dims, const BatchPlan& plan) {
  if (device::computes(qkv)) return device::ring_attention(qkv, dims, plan);
  return RingFunction::apply(qkv.contiguous(), dims, plan);
}

}  // namespace trireme::models
