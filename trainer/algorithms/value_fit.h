// How well a critic foretells returns. Torch-free.
#pragma once

#include <cstdint>

#include "trainer/algorithms/estimators.h"

namespace trireme::algorithms {

/// Sums over unmasked tokens: of returns, and of what they are more than the values.
struct ValueFit {
  double tokens = 0;
  double returns = 0, return_squares = 0;
  double errors = 0, error_squares = 0;

  void add(const Trajectory& one);
  void add(const ValueFit& other);
  /// 1 - var(returns - values) / (var(returns) + 1e-5), with unbiased variances: 1 where values are the
  /// returns, 0 where any constant would do as well. Of fewer than two tokens 0. Source: verl
  /// critic/vf_explained_var.
  double explained_variance() const;
};

}  // namespace trireme::algorithms
