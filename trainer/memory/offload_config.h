// What leaves the device's memory while it is not needed. Torch-free.
#pragma once

#include <string>

namespace trireme::memory {

/// Of a role's model.
struct RoleOffload {
  bool params = false;     // masters, weights and gradient, outside of the stages that need them
  bool optimizer = false;  // the optimizer's state, always: it comes in pieces
  bool any() const { return params || optimizer; }
};

struct OffloadConfig {
  RoleOffload actor, critic, reference;
  bool activations = false;  // what layers keep to be computed again, until then
  std::string folder;        // of files, where the device is a CPU
  bool any() const { return actor.any() || critic.any() || reference.any() || activations; }
};

}  // namespace trireme::memory
