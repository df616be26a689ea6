// How fast two hosts reach each other over TCP: what MPI's start, NCCL's start and every run without RDMA
// need.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace trireme::doctor {

/// Between two hosts, by their numbers.
struct Link {
  int from = 0, to = 0;
  std::string error;               // not empty: they do not reach each other
  double there = 0.0, back = 0.0;  // bytes a second
  double round_trip = 0.0;         // seconds, the least of some
  double slower() const { return there < back ? there : back; }
};

/// One end of it. Both ends are told at about the same time, one to connect, one to listen.
class LinkEnd {
 public:
  /// Listens on a port that the kernel chooses, on all addresses. Throws io.
  LinkEnd();
  ~LinkEnd();
  LinkEnd(const LinkEnd&) = delete;
  LinkEnd& operator=(const LinkEnd&) = delete;
  int port() const { return port_; }

  /// Some tenths of a second, or up to `limit` if something is wrong. `secret` keeps strangers out.
  /// The result is the connecting end's; the other one only says whether it was there.
  Link connect(const std::string& address, const std::string& secret, std::chrono::milliseconds limit) const;
  void accept(const std::string& secret, std::chrono::milliseconds limit) const;

 private:
  int fd_ = -1, port_ = 0;
};

}  // namespace trireme::doctor
