// A machine written as a short table becomes a tree of files like /sys, so that tests need no such machine.
//
// One thing a line, its name first where it has one, then NAME=VALUE; '#' begins a comment.
//   host    NAME
//   cpus    COUNT siblings=DISTANCE     CPU i and i + DISTANCE are one core
//   node    NUMBER cpus=LIST
//   allowed cpus=LIST mems=LIST         what Slurm or the container grants this process
//   cpuset  LIST                        the cgroup's, where there is no /proc
//   limit   QUOTA period=MICROSECONDS   CPU time of the cgroup
//   gpu     BUS-ID vendor=nvidia|amd node=N near=LIST under=PATH device=ID kfd=N hidden=1 uuid=U class=C
//   hca     NAME at=BUS-ID node=N under=PATH vf_of=BUS-ID no_file=1
//   port    NUMBER layer=ib|eth|... rate=GBITS state=DOWN link=Polling net=INTERFACE     of the HCA above
//   gid     INDEX address=A type=v1|v2|unreadable net=INTERFACE                          of the port above
//   ipv4    A.B.C.D net=INTERFACE       the four addresses that a RoCE port usually has
//   net     NAME state=up|down above=INTERFACE,...
//   route   default|NETWORK via=INTERFACE metric=N
//   pci     BUS-ID vendor=0x... class=0x...
// PATH is the way from the root complex, "pci0000:15/0000:15:01.0"; without one a device stands alone.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace trireme::topology {

/// The folder that stands for "/" of the machine; removed with this object. Throws invalid_argument with the
/// line that it does not understand.
class FakeRoot {
 public:
  explicit FakeRoot(const std::string& table);
  ~FakeRoot();
  FakeRoot(const FakeRoot&) = delete;
  FakeRoot& operator=(const FakeRoot&) = delete;

  std::string path() const { return root_; }

 private:
  using Values = std::map<std::string, std::string>;

  void read_line(const std::string& line);
  void write(const std::string& path, const std::string& text) const;
  void link(const std::string& path, const std::string& target) const;
  void add_cpus(const std::string& count, const Values& values);
  std::string add_device(const std::string& bus_id, const Values& values);
  void add_gpu(const std::string& bus_id, const Values& values);
  void add_hca(const std::string& name, const Values& values);
  void add_port(const std::string& number, const Values& values);
  void add_gid(const std::string& index, const Values& values) const;
  void add_ipv4(const std::string& address, const Values& values) const;
  void add_interface(const std::string& name, const Values& values) const;
  void add_route(const std::string& network, const Values& values);

  std::filesystem::path root_;
  std::map<std::string, std::string> node_cpus_;
  std::string device_, hca_, port_, routes_;
  int num_hcas_ = 0;
};

/// Two sockets of 8 cores with two threads, four GPUs whose bus order is not the order of the nodes.
inline const std::string kTwoSockets = R"(
cpus 32 siblings=16
node 0 cpus=0-7,16-23
node 1 cpus=8-15,24-31
allowed cpus=0-31 mems=0-1
)";
inline const std::string kFourGpus = R"(
gpu 0000:01:00.0 vendor=nvidia node=1
gpu 0000:02:00.0 vendor=nvidia node=0
gpu 0000:03:00.0 vendor=nvidia node=0
gpu 0000:81:00.0 vendor=nvidia node=1
)";

}  // namespace trireme::topology
