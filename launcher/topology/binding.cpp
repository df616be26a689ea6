#include "launcher/topology/binding.h"

#include <algorithm>
#include <set>

#include "runtime/base/error.h"

namespace trireme::topology {
namespace {

// Ranks that share some cores, as indices into Machine::cores.
struct Group {
  std::set<int> cores;
  std::vector<int> ranks;
};

// The cores that are near a GPU; all of them if the machine does not say or none may be used.
std::set<int> cores_near(const Machine& machine, const Gpu* gpu) {
  std::set<int> all, near;
  const std::set<int> cpus =
      gpu ? std::set<int>(gpu->place.cpus.begin(), gpu->place.cpus.end()) : std::set<int>{};
  for (size_t i = 0; i < machine.cores.size(); ++i) {
    all.insert(static_cast<int>(i));
    const Core& core = machine.cores[i];
    const bool on_node = gpu && gpu->place.memory_node >= 0 && core.memory_node == gpu->place.memory_node;
    if (cpus.empty() ? on_node : cpus.contains(core.cpus.front())) near.insert(static_cast<int>(i));
  }
  return near.empty() ? all : near;
}

// Ranks whose cores are the same or overlap, as those of a GPU that does not say where it is, come into one
// group. There the ranks that are near fewer cores come first, so that they get those.
std::vector<Group> make_groups(const std::vector<std::set<int>>& near) {
  std::vector<Group> groups;
  for (size_t rank = 0; rank < near.size(); ++rank) {
    Group mine{near[rank], {static_cast<int>(rank)}};
    const auto overlaps = [&](const Group& other) {
      return std::any_of(other.cores.begin(), other.cores.end(),
                         [&](int core) { return mine.cores.contains(core); });
    };
    for (auto it = groups.begin(); it != groups.end();) {
      if (!overlaps(*it)) {
        ++it;
        continue;
      }
      mine.cores.insert(it->cores.begin(), it->cores.end());
      mine.ranks.insert(mine.ranks.end(), it->ranks.begin(), it->ranks.end());
      it = groups.erase(it);
    }
    groups.push_back(std::move(mine));
  }
  for (auto& group : groups)
    std::sort(group.ranks.begin(), group.ranks.end(), [&](int a, int b) {
      if (near[a].size() != near[b].size()) return near[a].size() < near[b].size();
      return near[a] != near[b] ? near[a] < near[b] : a < b;
    });
  return groups;
}

// The part of `share` among `shares` of an even cut of the cores; single CPUs where cores do not suffice.
std::vector<int> cut(const Machine& machine, const std::set<int>& cores, int share, int shares) {
  std::vector<int> cpus;
  const int count = static_cast<int>(cores.size());
  const auto part = [&](const std::vector<std::vector<int>>& pieces) {
    const int total = static_cast<int>(pieces.size());
    for (int i = total * share / shares; i < total * (share + 1) / shares; ++i)
      cpus.insert(cpus.end(), pieces[i].begin(), pieces[i].end());
  };
  std::vector<std::vector<int>> whole, single;
  for (const int core : cores) {
    whole.push_back(machine.cores[core].cpus);
    for (const int cpu : machine.cores[core].cpus) single.push_back({cpu});
  }
  if (shares <= count)
    part(whole);
  else if (shares <= static_cast<int>(single.size()))
    part(single);
  else  // more ranks than CPUs: the kernel shares them out better than a fixed binding would
    for (const auto& cpu : single) cpus.push_back(cpu[0]);
  std::sort(cpus.begin(), cpus.end());
  return cpus;
}

}  // namespace

std::vector<Binding> bind(const Machine& machine, int num_ranks, bool use_gpus, int threads_per_rank) {
  TRIREME_CHECK(num_ranks > 0 && !machine.cores.empty(), "nothing to bind");
  const int num_gpus = use_gpus ? static_cast<int>(machine.gpus.size()) : 0;
  std::vector<std::set<int>> near(num_ranks);
  for (int rank = 0; rank < num_ranks; ++rank)
    near[rank] = cores_near(machine, num_gpus ? &machine.gpus[rank % num_gpus] : nullptr);

  std::vector<Binding> bindings(num_ranks);
  for (const auto& [cores, ranks] : make_groups(near)) {
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
      if (nodes.size() == 1 && machine.may_use_memory_of(*nodes.begin()))
        binding.memory_node = *nodes.begin();
    }
  }
  return bindings;
}

}  // namespace trireme::topology
