#include "runtime/session/session.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/comm/local_communicator.h"
#include "runtime/comm/mpi_communicator.h"
#include "runtime/comm/nccl_communicator.h"
#include "runtime/comm/recorded_communicator.h"
#include "runtime/comm/staged_communicator.h"
#include "runtime/plan/binding_check.h"
#include "runtime/plan/rank_page.h"

namespace trireme::session {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

// A rank that was started by hand has no plan. CPUs and memory that differ from it cost speed only.
void check_binding(const plan::RankEnv& env) {
  const auto path = plan::launch_plan_path(env.run_dir);
  if (env.run_dir.empty() || !std::filesystem::exists(path)) return;
  const auto plan = plan::load_launch_plan(path);
  if (env.rank >= static_cast<int>(plan.ranks.size())) return;
  for (const auto& difference : plan::binding_differences(plan.ranks[env.rank])) log::warn("{}", difference);
}

}  // namespace

struct Session::State {
  placement::RoleRanks roles;
  int rank = 0, num_ranks = 1;
  std::vector<std::string> hosts, gpus;
  int exceptions_at_opening = std::uncaught_exceptions();
  std::atomic<bool> aborted{false};

  // Communicators end before what carries them.
  ~State() {
    while (!opened.empty()) opened.pop_back();
  }
  std::unique_ptr<comm::MpiThread> mpi;  // null with one rank
  std::optional<plan::RankPage> page;    // none where nobody reads it
  std::vector<std::unique_ptr<comm::LocalWorld>> alone;
  std::vector<std::unique_ptr<comm::Communicator>> opened;
  std::vector<comm::NcclCommunicator*> to_close;
  comm::Communicator* world = nullptr;
  std::map<std::vector<int>, comm::Communicator*> by_ranks;

  // Of the ranks on one side of a run whose rollout is apart.
  comm::Communicator& side(const std::vector<int>& ranks) {
    TRIREME_CHECK(roles.rollout_is_apart() && std::binary_search(ranks.begin(), ranks.end(), rank),
                  "rank {} is not on this side of rollout apart from training", rank);
    return *by_ranks.at(ranks);
  }

  comm::Communicator* open_host(const std::string& name, const std::vector<int>& ranks) {
    if (mpi) return recorded(std::make_unique<comm::MpiCommunicator>(*mpi, name, ranks), ranks);
    return &alone.emplace_back(std::make_unique<comm::LocalWorld>(1, name))->communicator(0);
  }

  // Parts of a role's ranks have one name on different ranks: the page tells them apart by their first one.
  comm::Communicator* recorded(std::unique_ptr<comm::Communicator> inner, const std::vector<int>& ranks) {
    auto& carrier = *opened.emplace_back(std::move(inner));
    if (!page) return &carrier;
    const bool is_part = carrier.name().find('.') != std::string::npos;
    const auto name = is_part ? fmt::format("{}@{}", carrier.name(), ranks.front()) : carrier.name();
    return opened.emplace_back(std::make_unique<comm::RecordedCommunicator>(carrier, *page, name)).get();
  }

  // Every rank opens the groups that it is in, in one order: no two wait for each other.
  void open_groups(comm::Device device) {
    for (const placement::Group& group : placement::groups_of(roles))
      if (std::find(group.ranks.begin(), group.ranks.end(), rank) != group.ranks.end())
        by_ranks[group.ranks] = open_group(group.name, group.ranks, device);
  }

  comm::Communicator* open_group(const std::string& name, const std::vector<int>& ranks,
                                 comm::Device device) {
    comm::Communicator* host = open_host(name, ranks);
    if (device == comm::Device::cpu) return host;
    std::set<std::string> different;
    for (const int r : ranks) different.insert(gpus[r]);
    if (different.size() == ranks.size()) {
      auto nccl = std::make_unique<comm::NcclCommunicator>(*comm::gpu_calls(), *comm::nccl_calls(), *host);
      to_close.push_back(nccl.get());
      return recorded(std::move(nccl), ranks);
    }
    log::info("{}: ranks share a GPU, so tensors go through host memory and MPI", name);
    return recorded(std::make_unique<comm::StagedCommunicator>(*comm::gpu_calls(), *host), ranks);
  }

  // "HOST PCI-ADDRESS" of every rank's GPU. Ours must be `planned`, unless that is empty: its HCAs, CPUs and
  // memory were chosen for that one.
  void learn_gpus(const std::string& planned) {
    comm::GpuCalls* calls = comm::gpu_calls();
    if (!calls)
      fail(ErrorCode::invalid_config,
           "this build has no GPU support; build the cuda preset, or set the device to cpu");
    const auto own = calls->device_id(calls->current_device());
    if (!planned.empty() && !plan::is_same_device(own, planned))
      fail(ErrorCode::invalid_config,
           "this rank has the GPU {}, the plan says {}: is CUDA_DEVICE_ORDER other than PCI_BUS_ID, or a "
           "list of "
           "visible devices set after the plan was made?",
           own, planned);
    gpus = world->all_gather_strings(hosts[rank] + " " + own);
  }
};

Session::Session(const plan::RankEnv& env, const placement::RoleRanks& roles, comm::Device device)
    : state_(std::make_unique<State>()) {
  check_binding(env);
  state_->roles = roles;
  if (!env.page.empty()) state_->page.emplace(plan::RankPage::open(env.page));
  if (env.num_ranks > 1) {
    state_->mpi = std::make_unique<comm::MpiThread>();
    if (state_->mpi->world_size() != env.num_ranks)
      fail(ErrorCode::mpi,
           "the job was started with {} ranks, but {} sees {}; is the mpirun or srun --mpi=pmix in use that "
           "of this library?",
           env.num_ranks, comm::mpi_version(), state_->mpi->world_size());
    if (state_->mpi->world_rank() != env.rank)
      fail(ErrorCode::mpi, "the launch plan calls this rank {}, MPI calls it {}", env.rank,
           state_->mpi->world_rank());
    state_->rank = state_->mpi->world_rank();
    state_->num_ranks = state_->mpi->world_size();
  }
  std::vector<int> all(state_->num_ranks);
  for (int r = 0; r < state_->num_ranks; ++r) all[r] = r;
  state_->world = state_->open_host("world", all);
  state_->hosts = state_->world->all_gather_strings(host_name());
  if (device == comm::Device::gpu) state_->learn_gpus(env.gpu_bus_id);
  state_->open_groups(device);
}

Session::~Session() {
  const bool failing = std::uncaught_exceptions() > state_->exceptions_at_opening;
  if (failing || state_->aborted || !state_->world->abort_reason().empty()) return;
  try {
    for (comm::NcclCommunicator* nccl : state_->to_close) nccl->close();
    if (state_->mpi) state_->mpi->finalize();
  } catch (const std::exception& error) {
    log::warn("the session could not be closed in good order: {}", error.what());
  }
}

int Session::rank() const {
  return state_->rank;
}
int Session::num_ranks() const {
  return state_->num_ranks;
}
const std::string& Session::host() const {
  return state_->hosts[state_->rank];
}
const std::vector<std::string>& Session::hosts() const {
  return state_->hosts;
}
std::vector<int> Session::nodes() const {
  std::map<std::string, int> number;
  std::vector<int> nodes;
  for (const auto& host : hosts())
    nodes.push_back(number.emplace(host, static_cast<int>(number.size())).first->second);
  return nodes;
}
const placement::RoleRanks& Session::roles() const {
  return state_->roles;
}
bool Session::has(placement::Role role) const {
  return state_->roles.has(role, state_->rank);
}
comm::Communicator& Session::world() {
  return *state_->world;
}

placement::Mesh::Coordinates Session::place_in(placement::Role role) const {
  const auto place = state_->roles.mesh(role).find(state_->rank);
  TRIREME_CHECK(place, "rank {} is not one of the {}'s", state_->rank, to_string(role));
  return *place;
}

comm::Communicator& Session::group(placement::Role role) {
  place_in(role);
  return *state_->by_ranks.at(state_->roles.of(role));
}

bool Session::speaks_for_replica(placement::Role role) const {
  const auto place = place_in(role);
  return place.p == state_->roles.axes.of(role).pp - 1 && place.c == 0 && place.t == 0;
}

comm::Communicator& Session::along(placement::Axis axis, placement::Role role) {
  return *state_->by_ranks.at(state_->roles.mesh(role).along(axis, place_in(role)));
}

comm::Communicator& Session::same_weights(placement::Role role) {
  return *state_->by_ranks.at(state_->roles.mesh(role).same_weights(place_in(role)));
}

comm::Communicator& Session::training() {
  return state_->side(state_->roles.training());
}

comm::Communicator& Session::generating() {
  return state_->side(state_->roles.generating());
}

comm::Communicator& Session::weights() {
  return *state_->by_ranks.at(state_->roles.all());
}

void Session::abort(const std::string& why) noexcept {
  state_->aborted = true;
  state_->world->abort(why);
  for (const auto& [ranks, group] : state_->by_ranks) group->abort(why);
}

std::string versions() {
  return fmt::format("MPI: {}\nNCCL: {}", comm::mpi_version(), comm::nccl_version());
}

}  // namespace trireme::session
