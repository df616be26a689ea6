#include "trainer/losses/value_loss.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/maximum.h>

namespace trireme::losses {

ValueLoss value_loss(const ValueTokens& tokens, double cliprange) {
  const at::Tensor kept =
      at::clamp(tokens.values_N, tokens.old_values_N - cliprange, tokens.old_values_N + cliprange);
  const at::Tensor plain = (tokens.values_N - tokens.returns_N).square(),
                   clipped = (kept - tokens.returns_N).square();
  const auto share = [&](const at::Tensor& values) {
    return (values.detach().to(at::kFloat) * tokens.shares_N).sum().item<double>();
  };
  ValueLoss result;
  result.loss = 0.5 * (at::maximum(plain, clipped) * tokens.weights_N).sum();
  result.clipped = share(clipped > plain);
  result.mean = share(tokens.values_N);
  return result;
}

}  // namespace trireme::losses
