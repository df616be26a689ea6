#include "trainer/losses/kl_estimate.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/exp.h>

#include "runtime/base/error.h"

namespace trireme::losses {

at::Tensor kl_estimate(const at::Tensor& log_probs, const at::Tensor& reference, const std::string& type) {
  const at::Tensor difference = log_probs - reference;
  const at::Tensor k2 = 0.5 * difference.pow(2);
  if (type.ends_with('+')) {
    const at::Tensor value = kl_estimate(log_probs.detach(), reference, type.substr(0, type.size() - 1));
    return value + (k2 - k2.detach());
  }
  if (type == "kl" || type == "k1") return difference;
  if (type == "abs") return difference.abs();
  if (type == "mse" || type == "k2") return k2;
  if (type == "low_var_kl" || type == "k3") {
    const at::Tensor reverse = at::clamp(-difference, -20.0, 20.0);
    return at::clamp(at::exp(reverse) - reverse - 1.0, -10.0, 10.0);
  }
  fail(ErrorCode::invalid_config, "'{}' names no estimate of the KL", type);
}

}  // namespace trireme::losses
