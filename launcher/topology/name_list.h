// Lists of HCAs or of network interfaces as NCCL reads them: "^=mlx5_0:1,mlx5_3".
#pragma once

#include <string>
#include <vector>

namespace trireme::topology {

/// NCCL_IB_HCA, NCCL_SOCKET_IFNAME. Names are beginnings of names unless the list starts with '='; with '^'
/// it says what is not meant. An entry may end in a port, ":1".
struct NameList {
  struct Entry {
    std::string name;
    int port = -1;  // -1: any
  };
  bool excludes = false, exact = false;
  std::vector<Entry> entries;

  static NameList parse(const std::string& text);

  /// Whether an entry means this, whatever `excludes` says. `port` -1: an interface, which has none.
  bool means(const Entry& entry, const std::string& name, int port = -1) const;
  /// Whether the list lets it through. An empty list lets all through.
  bool admits(const std::string& name, int port = -1) const;
};

}  // namespace trireme::topology
