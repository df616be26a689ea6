// The most memory that each stage has used, as this rank's device sees it.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include <c10/core/Device.h>

namespace trireme::memory {

class StageMemory {
 public:
  explicit StageMemory(at::Device device) : device_(device) {}

  /// Between these two: a stage. They do not nest.
  void begin();
  void end(const std::string& stage);

  /// Bytes by stage since the last call: of tensors on a GPU; resident in this process on a CPU. A stage that
  /// ran more than once has its highest peak. Empty where the system does not let peaks be measured.
  std::map<std::string, int64_t> take();

 private:
  const at::Device device_;
  bool measures_ = false;
  std::map<std::string, int64_t> peaks_;
};

}  // namespace trireme::memory
