// The layers of a model shared out to the stages of a pipeline.
#pragma once

#include <cstdint>
#include <vector>

namespace trireme::placement {

/// Layers [first, end).
struct LayerRange {
  int64_t first = 0, end = 0;
  int64_t count() const { return end - first; }
};

/// What a row costs, in any unit: one layer; what the first stage has before its layers, and the last one
/// behind.
struct LayerCosts {
  double layer = 1, before = 0, behind = 0;
};

/// `num_layers` in `stages` ranges, none of them empty, of which the costliest is as cheap as can be, and
/// then all are as equal as can be (least squares). Throws invalid_config where there are fewer layers.
std::vector<LayerRange> share_layers(int64_t num_layers, int stages, const LayerCosts& costs);

}  // namespace trireme::placement
