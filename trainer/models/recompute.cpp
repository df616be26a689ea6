#include "trainer/models/recompute.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include <ATen/core/grad_mode.h>

namespace trireme::models {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;
using Part = std::function<at::Tensor(const at::Tensor&)>;

// What a graph keeps of a part.
struct Kept : torch::CustomClassHolder {
  explicit Kept(Part part) : part(std::move(part)) {}
  Part part;
};

struct Recomputed : Function<Recomputed> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const Part& part) {
    ctx->saved_data["part"] = c10::IValue::make_capsule(c10::make_intrusive<Kept>(part));
    ctx->save_for_backward({x});
    return part(x);  // not recorded: a Function's forward runs without gradients
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto kept = ctx->saved_data["part"].toCapsule();
    const at::Tensor x = ctx->get_saved_variables()[0].detach().requires_grad_(true);
    at::Tensor y;
    {
      const at::AutoGradMode record(true);
      y = static_cast<const Kept&>(*kept).part(x);
    }
    torch::autograd::backward({y}, {grads[0]});
    return {x.grad(), at::Tensor()};
  }
};

struct Action : torch::CustomClassHolder {
  explicit Action(std::function<void()> call) : call(std::move(call)) {}
  std::function<void()> call;
};

struct OnTheWayBack : Function<OnTheWayBack> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const std::function<void()>& action) {
    ctx->saved_data["action"] = c10::IValue::make_capsule(c10::make_intrusive<Action>(action));
    return x;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    static_cast<const Action&>(*ctx->saved_data["action"].toCapsule()).call();
    return {grads[0], at::Tensor()};
  }
};

}  // namespace

at::Tensor on_the_way_back(const at::Tensor& x, std::function<void()> action) {
  return OnTheWayBack::apply(x, action);
}

at::Tensor recomputed(Part part, const at::Tensor& x) {
  return Recomputed::apply(x, part);
}

}  // namespace trireme::models
