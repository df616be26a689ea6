#pragma once

#include <cstdint>

namespace trireme::models {

/// `length` slots from `slot` on hold consecutive positions of one token history.
struct SlotSpan {
  int32_t slot = 0;
  int32_t length = 0;
  bool operator==(const SlotSpan&) const = default;
};

}  // namespace trireme::models
