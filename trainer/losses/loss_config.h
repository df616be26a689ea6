// The policy loss's constants, part of [actor]. Torch-free.
#pragma once

#include <cstdint>
#include <string>

namespace trireme::losses {

/// actor.policy_loss.loss_mode; policy_loss.cpp has their functions, in this order.
inline constexpr const char* kLossModes[] = {"vanilla",  "gspo",     "cispo",  "sapo",
                                             "geo_mean", "clip_cov", "kl_cov", "gpg"};

struct PolicyLossConfig {
  std::string loss_mode = "vanilla";
  double clip_ratio_low = 0.2;
  double clip_ratio_high = 0.2;
  double clip_ratio_c = 3.0;  // vanilla: dual clip, for negative advantages
  double tau_pos = 1.0;       // sapo
  double tau_neg = 1.05;
  double clip_cov_ratio = 0.0002;  // clip_cov
  double clip_cov_lb = 1.0;
  double clip_cov_ub = 5.0;
  double kl_cov_ratio = 0.0002;  // kl_cov
  double ppo_kl_coef = 0.1;
  // token-mean | token-sum | seq-mean-token-sum | seq-mean-token-mean | seq-mean-token-sum-norm
  std::string loss_agg_mode = "token-mean";
  int64_t loss_scale_factor = 0;  // seq-mean-token-sum-norm; 0: data.max_response_length
  double entropy_coeff = 0.0;
  bool use_kl_loss = false;
  double kl_loss_coef = 0.001;
  std::string kl_loss_type = "low_var_kl";  // kl_estimate()
  bool use_bias_correction_kl = false;      // importance_ratio() times it
};

}  // namespace trireme::losses
