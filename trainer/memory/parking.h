// Tensors that are in the device's memory only while they are needed, and outside of it with their bytes
// else. Views of them stay valid, and may be used while the tensors are there.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "trainer/memory/outside.h"

namespace trireme::memory {

class Parking {
 public:
  /// Tensors that are there, each with a storage of its own, which it fills. `outside` outlives this.
  Parking(Outside& outside, std::vector<at::Tensor> tensors);
  /// Ends what is under way: tensors that were parked stay without memory.
  ~Parking();
  Parking(const Parking&) = delete;
  Parking& operator=(const Parking&) = delete;

  /// Begins to bring them out, and gives their memory back when that is done. `changed`: their bytes are not
  /// those that they came with.
  void park(bool changed);
  /// Begins to bring them back: they take memory from here on.
  void expect();
  /// They are there. Throws io where a copy has failed.
  void fetch();
  int64_t bytes() const;

 private:
  enum class State { there, leaving, coming };

  Outside& outside_;
  std::vector<at::Tensor> tensors_;
  std::vector<Outside::Slot> slots_;  // none before they were parked for the first time
  State state_ = State::there;
  Outside::Copy last_;  // of what is under way
};

}  // namespace trireme::memory
