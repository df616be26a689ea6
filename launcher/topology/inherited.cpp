#include "launcher/topology/inherited.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

#include "launcher/topology/name_list.h"
#include "launcher/topology/rank_variables.h"
#include "runtime/base/error.h"

namespace trireme::topology {
namespace {

using Kind = Remark::Kind;

enum class When { set, on, off, one };  // on: neither empty nor 0

// What a variable means whatever the machine is. Checked against the sources of NCCL 2.30.
struct Known {
  std::string_view name;
  When when;
  Kind kind;
  std::string_view text;
};
constexpr std::array kKnown{
    Known{"NCCL_TREE_THRESHOLD", When::set, Kind::useless,
          "NCCL has not read it since 2.5; NCCL_ALGO took its place"},
    Known{"NCCL_LL_THRESHOLD", When::set, Kind::useless,
          "NCCL has not read it since 2.5; NCCL_PROTO took its place"},
    Known{"NCCL_SINGLE_RING_THRESHOLD", When::set, Kind::useless, "NCCL has not read it since 2.5"},
    Known{"NCCL_CHECKS_DISABLE", When::set, Kind::useless,
          "NCCL no longer reads it; NCCL_CHECK_POINTERS took its place"},
    Known{"NCCL_IB_CUDA_SUPPORT", When::set, Kind::useless,
          "NCCL no longer reads it; it decides about GPUDirect by itself, or by NCCL_NET_GDR_LEVEL"},
    Known{"NCCL_IB_GDR_LEVEL", When::set, Kind::useless,
          "NCCL no longer reads it; NCCL_NET_GDR_LEVEL took its place"},
    Known{"NCCL_RINGS", When::set, Kind::useless, "NCCL no longer reads it"},
    Known{"NCCL_MIN_NRINGS", When::set, Kind::costly,
          "the old name of NCCL_MIN_NCHANNELS: it takes multiprocessors from computing; unset it, NCCL knows "
          "better"},
    Known{"NCCL_MAX_NRINGS", When::set, Kind::costly,
          "the old name of NCCL_MAX_NCHANNELS: it caps bandwidth; unset it, NCCL knows better"},
    Known{"NCCL_NSOCKS_PERTHREAD", When::set, Kind::useless,
          "only for traffic over sockets, a setting of the clouds"},
    Known{"NCCL_SOCKET_NTHREADS", When::set, Kind::useless,
          "only for traffic over sockets, a setting of the clouds"},
    Known{"NCCL_P2P_DISABLE", When::on, Kind::costly,
          "traffic between GPUs of a host goes through its memory"},
    Known{"NCCL_SHM_DISABLE", When::on, Kind::costly, "traffic within a host may go through the network"},
    Known{"NCCL_PXN_DISABLE", When::on, Kind::costly, "GPUs may not use each other's nearest HCA"},
    Known{"NCCL_NVLS_ENABLE", When::off, Kind::costly, "reductions in the NVLink switch are off"},
    Known{"NCCL_CUMEM_ENABLE", When::off, Kind::costly,
          "another engine's workaround, which turns symmetric memory off"},
    Known{"NCCL_DMABUF_ENABLE", When::off, Kind::costly, "without nvidia_peermem, GPUDirect is off"},
    Known{"NCCL_ALGO", When::set, Kind::costly, "one algorithm for all sizes; meant for measurements"},
    Known{"NCCL_PROTO", When::set, Kind::costly, "one protocol for all sizes; meant for measurements"},
    Known{"NCCL_LAUNCH_MODE", When::set, Kind::useless, "for processes with several GPUs; here each has one"},
    Known{"NCCL_COMM_BLOCKING", When::on, Kind::wrong,
          "communicators must not block, or a failed peer could never be left; unset it"},
    Known{"NCCL_ASYNC_ERROR_HANDLING", When::set, Kind::useless,
          "PyTorch's process groups read it, which are not used here"},
    Known{"NCCL_BLOCKING_WAIT", When::set, Kind::useless,
          "PyTorch's process groups read it, which are not used here"},
    Known{"NCCL_DESYNC_DEBUG", When::set, Kind::useless,
          "PyTorch's process groups read it, which are not used here"},
    Known{"CUDA_LAUNCH_BLOCKING", When::on, Kind::costly, "every kernel is waited for; meant for debugging"},
    Known{"CUDA_DEVICE_MAX_CONNECTIONS", When::set, Kind::costly,
          "another trainer's setting: computing and communicating may no longer overlap"},
    Known{"OMP_NUM_THREADS", When::one, Kind::costly,
          "stands in place of the planned number of threads; torchrun sets 1"},
    Known{"HSA_OVERRIDE_GFX_VERSION", When::set, Kind::wrong,
          "makes a GPU pass for another model; on one that is supported it breaks kernels"},
    Known{"RCCL_MSCCL_ENABLE", When::set, Kind::useless,
          "RCCL had MSCCL up to ROCm 7; newer versions do not read it"},
    Known{"UCX_IB_GPU_DIRECT_RDMA", When::set, Kind::useless, "MPI moves no GPU memory here"},
};

bool is_on(const std::string& value) {
  return !value.empty() && value != "0";
}

class Writer {
 public:
  Writer(const Settings& user, std::vector<Remark>& out) : user_(user), out_(out) {}
  const std::string* value(const std::string& name) const {
    const auto found = user_.all().find(name);
    return found == user_.all().end() ? nullptr : &found->second.text;
  }
  void add(Kind kind, const std::string& name, std::string text) {
    const auto& value = user_.all().at(name);
    out_.push_back({kind, name, value.text, value.source, std::move(text)});
  }

 private:
  const Settings& user_;
  std::vector<Remark>& out_;
};

void check_known(const Machine& machine, Writer& write) {
  for (const auto& known : kKnown) {
    const std::string name(known.name);
    const auto* value = write.value(name);
    if (!value) continue;
    if ((known.when == When::on && !is_on(*value)) || (known.when == When::off && is_on(*value)) ||
        (known.when == When::one && *value != "1"))
      continue;
    const bool of_rocm = name.starts_with("HSA_") || name.starts_with("RCCL_");
    const bool of_cuda = name.starts_with("CUDA_");
    const bool amd = !machine.gpus.empty() && machine.gpus[0].vendor == "amd";
    if (machine.gpus.empty() && name != "OMP_NUM_THREADS") continue;
    if ((of_rocm && !amd) || (of_cuda && amd)) continue;
    write.add(known.kind, name, std::string(known.text));
  }
}

void check_hca_list(const Machine& machine, const HcaChoice& choice, Writer& write) {
  const auto* text = write.value("NCCL_IB_HCA");
  if (!text || machine.hcas.empty()) return;
  const auto list = NameList::parse(*text);
  for (const auto& entry : list.entries) {
    std::vector<std::string> meant;
    bool itself = false;
    for (const auto& hca : machine.hcas) {
      itself |= hca.name == entry.name;
      const bool any = std::any_of(hca.ports.begin(), hca.ports.end(), [&](const HcaPort& port) {
        return list.means(entry, hca.name, port.number);
      });
      if (any && hca.name != entry.name) meant.push_back(hca.name);
    }
    if (itself && !meant.empty())
      write.add(
          Kind::wrong, "NCCL_IB_HCA",
          fmt::format("'{}' also means {}, since names are beginnings of names; put '=' before the list",
                      entry.name, fmt::join(meant, ", ")));
    if (!itself && meant.empty())
      write.add(Kind::wrong, "NCCL_IB_HCA",
                fmt::format("there is no HCA '{}' on {}", entry.name, machine.host));
  }
  for (const auto& dropped : choice.dropped)
    if (list.admits(machine.hcas[dropped.port.hca].name,
                    machine.hcas[dropped.port.hca].ports[dropped.port.port].number) &&
        !list.excludes)
      write.add(Kind::wrong, "NCCL_IB_HCA",
                fmt::format("{} {}", port_name(machine, dropped.port), dropped.reason));
  const auto own = choose_hcas(machine, std::nullopt);
  if (choice.used.size() < own.used.size() && !choice.used.empty())
    write.add(
        Kind::costly, "NCCL_IB_HCA",
        fmt::format(
            "uses {} of {} ports; all ranks of a host need the whole list, NCCL finds the nearest by itself",
            choice.used.size(), own.used.size()));
}

void check_interface_list(const Machine& machine, Writer& write) {
  const auto* text = write.value("NCCL_SOCKET_IFNAME");
  if (!text || machine.interfaces.empty()) return;
  const auto list = NameList::parse(*text);
  std::vector<std::string> meant;
  for (const auto& interface : machine.interfaces)
    if (interface.is_up && list.admits(interface.name)) meant.push_back(interface.name);
  if (meant.empty())
    write.add(Kind::wrong, "NCCL_SOCKET_IFNAME",
              fmt::format("names no interface of {} that is up: NCCL would fail", machine.host));
  else if (!list.exact && !list.excludes && meant.size() > list.entries.size())
    write.add(Kind::wrong, "NCCL_SOCKET_IFNAME",
              fmt::format("means {}, since names are beginnings of names; put '=' before the list",
                          fmt::join(meant, ", ")));
}

void check_gid_index(const Machine& machine, const HcaChoice& choice, Writer& write) {
  const auto* text = write.value("NCCL_IB_GID_INDEX");
  if (!text || choice.used.empty() || *text == "-1") return;
  const int index = std::atoi(text->c_str());
  bool is_read = false;
  for (const auto ref : choice.used) {
    const HcaPort& port = machine.hcas[ref.hca].ports[ref.port];
    if (port.link_layer != "Ethernet") continue;
    is_read = true;
    const auto gid = std::find_if(port.gids.begin(), port.gids.end(),
                                  [&](const Gid& entry) { return entry.index == index; });
    const auto best = gid_index(port);
    const auto instead = best ? fmt::format("; unset it, or take {}", *best) : "";
    const std::string name = port_name(machine, ref);
    if (gid == port.gids.end())
      write.add(Kind::wrong, "NCCL_IB_GID_INDEX",
                fmt::format("{} has no address {}{}", name, index, instead));
    else if (gid->is_link_local())
      write.add(Kind::wrong, "NCCL_IB_GID_INDEX",
                fmt::format("address {} of {} reaches no other subnet{}", index, name, instead));
    else if (gid->roce_version == 1)
      write.add(
          Kind::wrong, "NCCL_IB_GID_INDEX",
          fmt::format("address {} of {} is of RoCE v1, which no router passes on{}", index, name, instead));
  }
  if (!is_read)
    write.add(Kind::useless, "NCCL_IB_GID_INDEX", "is read for RoCE only; these ports are InfiniBand");
}

void check_rdma(const Machine& machine, const HcaChoice& choice, Writer& write) {
  const auto* disabled = write.value("NCCL_IB_DISABLE");
  if (disabled && is_on(*disabled) && !choice.used.empty())
    write.add(
        Kind::costly, "NCCL_IB_DISABLE",
        fmt::format("{} can be used, and NCCL is told to use sockets", port_name(machine, choice.used[0])));
  const auto* devices = write.value("UCX_NET_DEVICES");
  if (devices && choice.used.size() > 1 && devices->find("mlx") != std::string::npos &&
      devices->find(',') == std::string::npos)
    write.add(Kind::costly, "UCX_NET_DEVICES",
              "one port for all ranks; if it is unset each rank gets its nearest");
}

void check_visible_devices(const Machine& machine, Writer& write) {
  if (machine.gpus.empty() || machine.gpus[0].vendor != "amd") return;
  const auto *rocr = write.value("ROCR_VISIBLE_DEVICES"), *hip = write.value("HIP_VISIBLE_DEVICES"),
             *cuda = write.value("CUDA_VISIBLE_DEVICES");
  const std::string other = hip ? "HIP_VISIBLE_DEVICES" : "CUDA_VISIBLE_DEVICES";
  if (rocr && (hip || cuda))
    write.add(
        Kind::wrong, other,
        fmt::format("counts the devices that ROCR_VISIBLE_DEVICES={} has left, not all; set one of them",
                    *rocr));
  else if (hip && cuda && *hip != *cuda)
    write.add(Kind::wrong, "CUDA_VISIBLE_DEVICES",
              fmt::format("HIP reads HIP_VISIBLE_DEVICES={} instead; set one of them", *hip));
}

}  // namespace

const char* to_string(Remark::Kind kind) {
  return kind == Kind::wrong ? "wrong" : kind == Kind::costly ? "costly" : "useless";
}

std::vector<Remark> remarks(const Settings& user, const Machine& machine, const HcaChoice& choice) {
  std::vector<Remark> found;
  Writer write(user, found);
  check_known(machine, write);
  if (!machine.gpus.empty()) {
    check_hca_list(machine, choice, write);
    check_interface_list(machine, write);
    check_gid_index(machine, choice, write);
    check_rdma(machine, choice, write);
    check_visible_devices(machine, write);
  }
  for (const auto& [name, value] : user.all())
    if (name.starts_with("TORCH_NCCL_"))
      write.add(Kind::useless, name, "PyTorch's process groups read it, which are not used here");
  std::stable_sort(found.begin(), found.end(),
                   [](const Remark& a, const Remark& b) { return a.kind < b.kind; });
  return found;
}

}  // namespace trireme::topology
