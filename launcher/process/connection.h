// The TCP connection between a guard and the supervisor, line by line, never blocking.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/plan/rank_report.h"

namespace trireme::process {

class Connection {
 public:
  Connection() = default;
  /// Takes an open socket.
  explicit Connection(int fd);
  /// "10.0.0.1:4711", or several, separated by commas: the first that answers, within some seconds. Throws
  /// io.
  static Connection to(const std::string& addresses);
  Connection(Connection&& other) noexcept { *this = std::move(other); }
  Connection& operator=(Connection&& other) noexcept;
  ~Connection() { close(); }

  bool is_open() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  /// Bytes that wait to be sent.
  size_t backlog() const { return outgoing_.size(); }

  /// Queues; sends what the socket takes now. Closes on an error.
  void send(const std::string& line);
  void flush();
  /// Reads what is there and calls take(std::string line). Closes when the other end has closed, or has
  /// sent a line beyond `longest_line` bytes.
  template <typename Take>
  void receive(size_t longest_line, Take take) {
    std::string chunk;
    while (is_open() && read_some(chunk)) {
      cutter_.feed(chunk.data(), chunk.size(), take);
      if (cutter_.pending().size() > longest_line) close();
    }
  }
  void close();

 private:
  bool read_some(std::string& chunk);  // false: nothing is there now

  int fd_ = -1;
  std::string outgoing_;
  plan::LineCutter cutter_;
};

/// Listens on a port that the kernel chooses.
class Listener {
 public:
  enum class Reach { this_host, other_hosts };
  /// this_host: on 127.0.0.1. other_hosts: on all addresses. Throws io.
  explicit Listener(Reach reach);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  int fd() const { return fd_; }
  /// For Connection::to.
  const std::string& addresses() const { return addresses_; }
  /// Not open if nobody is waiting.
  Connection accept();

 private:
  int fd_;
  std::string addresses_;
};

/// An IPv4 address of this host, without those of the loopback interface.
struct OwnAddress {
  std::string interface;
  uint32_t address = 0;  // host byte order
  int prefix = 32;       // bits of its network
};
std::vector<OwnAddress> own_addresses();
/// "10.78.0.1"
std::string to_text(uint32_t address);
/// A TCP port of this host that was free a moment ago; 0 if there is none.
int free_port();

}  // namespace trireme::process
