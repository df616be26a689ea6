// Who gets what of a machine: CPUs, memory node and GPU of each local rank.
#pragma once

#include <vector>

#include "launcher/topology/machine.h"

namespace trireme::topology {

struct Binding {
  std::vector<int> cpus;  // ascending
  int memory_node =
      -1;           // preferred; -1: the CPUs belong to several, the machine does not say, or it is barred
  int gpu = -1;     // index into Machine::gpus
  int threads = 1;  // that compute: one a core
};

/// Local rank i gets GPU i (again from the first where ranks outnumber GPUs) and an even share of the cores
/// that are near it; without GPUs an even share of all. Whole cores first; ranks share CPUs only where they
/// outnumber them. `threads_per_rank` 0: as many as the rank has cores, or less if the container's share of
/// CPU time is smaller. Expects num_ranks > 0 and a machine with cores.
std::vector<Binding> bind(const Machine& machine, int num_ranks, bool use_gpus, int threads_per_rank);

}  // namespace trireme::topology
