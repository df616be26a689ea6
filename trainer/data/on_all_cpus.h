// Work on rows, shared out over the CPUs of this process.
#pragma once

#include <cstddef>
#include <functional>

namespace trireme::data {

/// Calls body(i) for i in [0, count), in no order. Throws the first exception that a thread met.
void on_all_cpus(size_t count, const std::function<void(size_t)>& body);

}  // namespace trireme::data
