// Tensors put aside for a while, outside of the device's memory: what layers keep for the backward pass. They
// are asked for in about the reverse order, so each that comes back sends for the one put there before it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>

#include <ATen/core/Tensor.h>

#include "trainer/memory/outside.h"

namespace trireme::memory {

class Shelf {
 public:
  /// `outside` outlives this and all that was put there.
  explicit Shelf(Outside& outside) : outside_(outside) {}

  /// What was put there; its room is given back with it.
  class Item;

  /// Begins to copy `values` out (contiguous; they must not change), and lets go of them when that is done.
  /// Waits where more than a few copies are behind.
  std::shared_ptr<Item> put(at::Tensor values);
  /// The same bytes again.
  at::Tensor get(Item& item);

 private:
  void send_for(Item& item);

  Outside& outside_;
  std::map<int64_t, std::weak_ptr<Item>> items_;  // in the order in which they were put there
  std::deque<Outside::Copy> behind_;
  int64_t next_ = 0;
};

}  // namespace trireme::memory
