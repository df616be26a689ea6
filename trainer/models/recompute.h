// What the backward pass does beside gradients. Memory for time (gradient checkpointing): a part of a forward
// pass keeps only its input, and the backward pass computes it again.
#pragma once

#include <functional>

#include <ATen/core/Tensor.h>

#include "trainer/memory/shelf.h"

namespace trireme::models {

/// part(x). Its backward pass calls `part` once more, recorded, and so gives the same bits as if it had been
/// recorded at once: `part` must be a function of x alone, and what it refers to must outlive the graph.
/// Meanwhile x is on the `shelf` (which outlives the graph), or in the device's memory where that is null.
at::Tensor recomputed(std::function<at::Tensor(const at::Tensor&)> part, const at::Tensor& x,
                      memory::Shelf* shelf = nullptr);

/// x as it is; the backward pass calls `action` when the gradient of what was computed from the result is
/// whole, before it goes on to what x was computed from.
at::Tensor on_the_way_back(const at::Tensor& x, std::function<void()> action);

}  // namespace trireme::models
