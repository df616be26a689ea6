// The policy loss's constants, part of [actor]. Torch-free.
#pragma once

#include <cstdint>
#include <string>

namespace trireme::losses {

struct PolicyLossConfig {
  double clip_ratio_low = 0.2;
  double clip_ratio_high = 0.2;
  double clip_ratio_c = 3.0;  // dual clip, for negative advantages
  // token-mean | seq-mean-token-sum | seq-mean-token-mean | seq-mean-token-sum-norm
  std::string loss_agg_mode = "token-mean";
  double entropy_coeff = 0.0;
  bool use_kl_loss = false;
  double kl_loss_coef = 0.001;
  std::string kl_loss_type = "low_var_kl";  // kl | abs | mse | low_var_kl
};

}  // namespace trireme::losses
