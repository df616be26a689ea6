#include "trainer/algorithms/value_fit.h"

namespace trireme::algorithms {

void ValueFit::add(const Trajectory& one) {
  for (size_t t = 0; t < one.mask.size(); ++t) {
    if (!one.mask[t]) continue;
    const double error = one.returns[t] - one.values[t];
    tokens += 1;
    returns += one.returns[t];
    return_squares += one.returns[t] * one.returns[t];
    errors += error;
    error_squares += error * error;
  }
}

void ValueFit::add(const ValueFit& other) {
  tokens += other.tokens;
  returns += other.returns;
  return_squares += other.return_squares;
  errors += other.errors;
  error_squares += other.error_squares;
}

double ValueFit::explained_variance() const {
  if (tokens < 2) return 0.0;
  const auto variance = [&](double sum, double squares) {
    return (squares - sum * sum / tokens) / (tokens - 1);
  };
  return 1.0 - variance(errors, error_squares) / (variance(returns, return_squares) + 1e-5);
}

}  // namespace trireme::algorithms
