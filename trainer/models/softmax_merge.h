// The softmax of a row whose logits are in pieces, from what each piece says of itself. Torch-free; rollout
// and training both come through here, so they get the same bits.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

namespace trireme::models {

/// Of one row: log sum exp(logits), and the entropy (nats) of their softmax.
struct RowStats {
  float lse = 0, entropy = 0;
};

/// Of the pieces together, in their order. One piece is what it is.
inline RowStats merged(std::span<const RowStats> pieces) {
  if (pieces.size() == 1) return pieces[0];
  double largest = pieces[0].lse;
  for (const RowStats& piece : pieces) largest = std::max<double>(largest, piece.lse);
  double total = 0;
  for (const RowStats& piece : pieces) total += std::exp(piece.lse - largest);
  const double lse = largest + std::log(total);
  // A piece's share of the probability is exp(its lse - lse); its own surprise is less by that difference.
  double entropy = 0;
  for (const RowStats& piece : pieces) {
    const double apart = lse - piece.lse;
    entropy += std::exp(-apart) * (piece.entropy + apart);
  }
  return {static_cast<float>(lse), static_cast<float>(entropy)};
}

}  // namespace trireme::models
