// What is reached of a machine's best, and what takes time beside products, bytes and messages: the numbers
// of the model of time that no data sheet holds. Each says where it comes from. Torch-free.
#pragma once

#include <array>
#include <string>

namespace trireme::costs {

enum class Constant {
  product_share,    // of a device's products, in training and in forward passes of many rows
  decode_share,     // of its memory's rate, in a step of decoding
  layer_seconds,    // beside a layer's products and bytes, in any pass: starting kernels
  decode_seconds,   // beside them in a step of decoding: scheduling, sampling
  link_share,       // of the fabric's and the network's rate, in collectives
  message_seconds,  // before the first byte, for each member of a ring
  update_share,     // of the memory's rate, in an optimizer's update
  touch_share,      // of it between products: norms, rotation, activation, softmax
  length_spread,    // of responses: a + b of the beta distribution of length / limit
  uneven_share,     // of a training stage's products: waiting for the rank with most rows, padding
  count
};
inline constexpr size_t kNumConstants = static_cast<size_t>(Constant::count);

struct ConstantValue {
  const char* name;
  double value;
  const char* unit;
  bool fitted;  // else assumed
  std::string source;
};

class Constants {
 public:
  double of(Constant which) const { return all[static_cast<size_t>(which)].value; }
  void set(Constant which, double value) { all[static_cast<size_t>(which)].value = value; }
  std::array<ConstantValue, kNumConstants> all;
};

/// For GPUs: from published runs of other programs. trireme's own kernels on GPUs have not been timed.
const Constants& gpu_constants();
/// For ranks on CPUs: from this project's own bench, on other shapes than those it is held against.
const Constants& cpu_constants();

}  // namespace trireme::costs
