#include "trainer/memory/stage_memory.h"

#include <ATen/DeviceAccelerator.h>

#include <algorithm>
#include <fstream>
#include <utility>

namespace trireme::memory {
namespace {

// Of /proc/self/status: the most that was resident since the peak was last reset.
int64_t resident_peak() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return 1024 * std::stoll(line.substr(6));
  return 0;
}

c10::DeviceIndex index_of(at::Device device) {
  return device.has_index() ? device.index() : c10::DeviceIndex{0};
}

}  // namespace

void StageMemory::begin() {
  if (device_.is_cpu()) {
    std::ofstream peak("/proc/self/clear_refs");
    peak << "5" << std::flush;
    measures_ = peak.good();
  } else {
    at::accelerator::resetPeakStats(index_of(device_));
    measures_ = true;
  }
}

void StageMemory::end(const std::string& stage) {
  if (!std::exchange(measures_, false)) return;
  const int64_t peak =
      device_.is_cpu() ? resident_peak()
                       : at::accelerator::getDeviceStats(index_of(device_)).allocated_bytes[0].peak;
  peaks_[stage] = std::max(peaks_[stage], peak);
}

std::map<std::string, int64_t> StageMemory::take() {
  return std::exchange(peaks_, {});
}

}  // namespace trireme::memory
