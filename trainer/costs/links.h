// What a collective over some ranks sends over which link, and how long that takes. Torch-free.
#pragma once

#include "trainer/costs/constants.h"
#include "trainer/costs/machine.h"

namespace trireme::costs {

/// Bytes that one device sends, and seconds.
struct LinkUse {
  double fabric_bytes = 0, network_bytes = 0, seconds = 0;
  LinkUse& operator+=(const LinkUse& other);
  LinkUse times(double count) const { return {fabric_bytes * count, network_bytes * count, seconds * count}; }
};

/// Ranks first, first + stride, ... of the world, which lies on the nodes in order.
struct RankLine {
  int64_t size = 1, stride = 1;
};

/// An all-gather or a reduce-scatter of `bytes` in all, as rings: through the fabric within a node, and
/// between nodes shared out over the network of all of a node's members. An all-reduce is two of them.
LinkUse ring(double bytes, RankLine ranks, const Machine& machine, const Constants& constants);
/// To a neighbour that is `distance` ranks away.
LinkUse send(double bytes, int64_t distance, const Machine& machine, const Constants& constants);

}  // namespace trireme::costs
