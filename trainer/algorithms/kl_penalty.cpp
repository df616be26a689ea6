#include "trainer/algorithms/kl_penalty.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/error.h"

namespace trireme::algorithms {

double kl_of_token(double log_prob, double reference, const std::string& type) {
  const std::string name = type.ends_with('+') ? type.substr(0, type.size() - 1) : type;
  const double apart = log_prob - reference;
  if (name == "kl" || name == "k1") return apart;
  if (name == "abs") return std::abs(apart);
  if (name == "mse" || name == "k2") return 0.5 * apart * apart;
  if (name == "low_var_kl" || name == "k3") {
    const double reverse = std::clamp(-apart, -20.0, 20.0);
    return std::clamp(std::exp(reverse) - reverse - 1.0, -10.0, 10.0);
  }
  fail(ErrorCode::invalid_config, "algorithm.kl_penalty '{}' is unknown", type);
}

void KlController::update(double kl, int64_t responses) {
  if (config_.type != "adaptive") return;
  const double error = std::clamp(kl / config_.target_kl - 1.0, -0.2, 0.2);
  coefficient_ *= 1.0 + error * static_cast<double>(responses) / config_.horizon;
}

}  // namespace trireme::algorithms
