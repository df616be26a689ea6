// The one reduction that all communicators on the CPU share: rank order, so the same bits everywhere.
#pragma once

#include <span>

#include "runtime/comm/communicator.h"

namespace trireme::comm {

/// out[i] = parts[0][i] op parts[1][i] op ..., from left to right. f32 adds in f32, f64 in f64, bf16 adds in
/// f32 and rounds once (to nearest even); integers wrap around. `out` may be one of the parts.
void reduce_in_order(std::span<const void* const> parts, void* out, int64_t count, DType dtype, ReduceOp op);

}  // namespace trireme::comm
