#include "launcher/topology/host_plan.h"

namespace trireme::topology {

HostPlan plan_host(const Machine& machine, const Settings& user, const JobShape& job, int num_ranks,
                   int threads_per_rank) {
  HostPlan plan;
  plan.choice = choose_hcas(machine, user.find("NCCL_IB_HCA"));
  std::vector<Place> places;
  for (auto& binding : bind(machine, num_ranks, !machine.gpus.empty(), threads_per_rank)) {
    Place place;  // without a GPU, what is near the CPUs
    place.memory_node = binding.memory_node;
    places.push_back(binding.gpu >= 0 ? machine.gpus[binding.gpu].place : place);
    plan.ranks.push_back({.binding = std::move(binding), .port = {}, .to_port = {}, .variables = {}});
  }
  const auto ports = nearest_ports(machine, plan.choice, places);
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    HostPlan::Rank& mine = plan.ranks[rank];
    mine.port = ports[rank];
    if (mine.port) mine.to_port = separation_of(machine, places[rank], *mine.port);
    mine.variables = rank_variables(machine, mine.port, user, job);
  }
  plan.variables = host_variables(machine, plan.choice, user, job);
  plan.remarks = remarks(user, machine, plan.choice);
  return plan;
}

}  // namespace trireme::topology
