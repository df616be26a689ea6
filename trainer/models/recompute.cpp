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
  memory::Shelf* shelf = nullptr;
  std::shared_ptr<memory::Shelf::Item> input;  // on the shelf
};

struct Recomputed : Function<Recomputed> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const Part& part,
                            memory::Shelf* shelf) {
    auto kept = c10::make_intrusive<Kept>(part);
    if (shelf) {
      kept->shelf = shelf;
      kept->input = shelf->put(x.detach());
    } else {
      ctx->save_for_backward({x});
    }
    ctx->saved_data["part"] = c10::IValue::make_capsule(std::move(kept));
    return part(x);  // not recorded: a Function's forward runs without gradients
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto capsule = ctx->saved_data["part"].toCapsule();
    auto& kept = static_cast<Kept&>(*capsule);
    const at::Tensor input =
        kept.input ? kept.shelf->get(*kept.input) : ctx->get_saved_variables()[0].detach();
    kept.input.reset();
    const at::Tensor x = input.requires_grad_(true);
    at::Tensor y;
    {
      const at::AutoGradMode record(true);
      y = kept.part(x);
    }
    torch::autograd::backward({y}, {grads[0]});
    return {x.grad(), at::Tensor(), at::Tensor()};
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

at::Tensor recomputed(Part part, const at::Tensor& x, memory::Shelf* shelf) {
  return Recomputed::apply(x, part, shelf);
}

}  // namespace trireme::models
