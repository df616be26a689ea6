// The critic's objective. A pure function.
//
// Legend: N response tokens of one micro-batch.
#pragma once

#include <ATen/core/Tensor.h>

namespace trireme::losses {

struct ValueTokens {
  at::Tensor values_N;      // fp32, with graph
  at::Tensor old_values_N;  // before the step's updates; fp32, as the following
  at::Tensor returns_N;
  at::Tensor weights_N;  // token_weight(); 0 where a token does not count
  at::Tensor shares_N;   // 1 / the mini-batch's tokens; 0 where a token does not count: for metrics
};

struct ValueLoss {
  at::Tensor loss;     // scalar, with graph
  double clipped = 0;  // share of tokens where the clip decides: critic/vf_clipfrac
  double mean = 0;     // of the values: critic/vpred_mean
};

/// 0.5 sum of weight * max((V - R)^2, (V' - R)^2), V' being V kept within `cliprange` of the old value.
/// Source: verl compute_value_loss; the clip is that of OpenAI's baselines (ppo2).
ValueLoss value_loss(const ValueTokens& tokens, double cliprange);

}  // namespace trireme::losses
