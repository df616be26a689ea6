// The bytes of TensorBoard's event files: records of length, masked CRC32C and an Event message.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/observe/metrics.h"

namespace trireme::observe {

/// CRC-32C (Castagnoli).
uint32_t crc32c(std::string_view bytes);

/// u64 length | masked crc of it | payload | masked crc of it, little-endian.
std::string tf_record(std::string_view payload);

/// The first Event of a file.
std::string version_event(double wall_time);
/// One Event with a scalar for each metric. `wall_time` in seconds since 1970.
std::string scalars_event(double wall_time, int64_t step, const Metrics& metrics);

}  // namespace trireme::observe
