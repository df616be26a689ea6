#include "launcher/topology/binding.h"

#include <algorithm>
#include <map>
#include <set>

#include "runtime/base/error.h"

namespace trireme::topology {
namespace {

// The cores that are near a GPU; all of them if the machine does not say or none may be used.
std::vector<int> cores_near(const Machine& machine, const Gpu* gpu) {
  std::vector<int> all, near;
  const std::set<int> cpus = gpu ? std::set<int>(gpu->cpus.begin(), gpu->cpus.end()) : std::set<int>{};
  for (size_t i = 0; i < machine.cores.size(); ++i) {
    all.push_back(static_cast<int>(i));
    const Core& core = machine.cores[i];
    const bool on_node = gpu && gpu->memory_node >= 0 && core.memory_node == gpu->memory_node;
    if (cpus.empty() ? on_node : cpus.contains(core.cpus.front())) near.push_back(static_cast<int>(i));
  }
  return near.empty() ? all : near;
}

// The part of `share` among `shares` of an even cut of the cores; single CPUs where cores do not suffice.
std::vector<int> cut(const Machine& machine, const std::vector<int>& cores, int share, int shares) {
  std::vector<int> cpus;
  const int count = static_cast<int>(cores.size());
  if (shares <= count) {
    for (int i = count * share / shares; i < count * (share + 1) / shares; ++i) {
      const auto& threads = machine.cores[cores[i]].cpus;
      cpus.insert(cpus.end(), threads.begin(), threads.end());
    }
  } else {
    std::vector<int> all;
    for (const int core : cores)
      all.insert(all.end(), machine.cores[core].cpus.begin(), machine.cores[core].cpus.end());
    const int total = static_cast<int>(all.size());
    if (shares <= total) {
      for (int i = total * share / shares; i < total * (share + 1) / shares; ++i) cpus.push_back(all[i]);
    } else {
      cpus = all;  // more ranks than CPUs: the kernel shares them out better than a fixed binding would
    }
  }
  std::sort(cpus.begin(), cpus.end());
  return cpus;
}

}  // namespace

std::vector<Binding> bind(const Machine& machine, int num_ranks, bool use_gpus, int threads_per_rank) {
  TRIREME_CHECK(num_ranks > 0 && !machine.cores.empty(), "nothing to bind");
  const int num_gpus = use_gpus ? static_cast<int>(machine.gpus.size()) : 0;
  // Ranks whose GPUs are near the same cores share those.
  std::map<std::vector<int>, std::vector<int>> ranks_on;
  for (int rank = 0; rank < num_ranks; ++rank)
    ranks_on[cores_near(machine, num_gpus ? &machine.gpus[rank % num_gpus] : nullptr)].push_back(rank);

  std::vector<Binding> bindings(num_ranks);
  for (const auto& [cores, ranks] : ranks_on) {
    for (size_t share = 0; share < ranks.size(); ++share) {
      Binding& binding = bindings[ranks[share]];
      binding.cpus = cut(machine, cores, static_cast<int>(share), static_cast<int>(ranks.size()));
      if (num_gpus) binding.gpu = ranks[share] % num_gpus;
      std::set<int> nodes;
      int own_cores = 0;
      for (const Core& core : machine.cores) {
        if (!std::binary_search(binding.cpus.begin(), binding.cpus.end(), core.cpus.front())) continue;
        ++own_cores;
        nodes.insert(core.memory_node);
      }
      int fair = std::max<int>(1, static_cast<int>(cores.size() / ranks.size()));
      if (machine.cpu_limit > 0) fair = std::min(fair, std::max(1, machine.cpu_limit / num_ranks));
      binding.threads = threads_per_rank > 0 ? threads_per_rank : std::clamp(own_cores, 1, fair);
      if (nodes.size() == 1) binding.memory_node = *nodes.begin();
    }
  }
  return bindings;
}

}  // namespace trireme::topology
