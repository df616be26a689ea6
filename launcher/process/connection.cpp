#include "launcher/process/connection.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "launcher/process/clock.h"
#include "runtime/base/error.h"

namespace trireme::process {
namespace {

constexpr auto kConnectLimit = std::chrono::seconds(10);

void prepare(int fd) {
  const int on = 1, silence_ms = 5000;
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms, sizeof(silence_ms));
}

}  // namespace

Connection::Connection(int fd) : fd_(fd) {
  prepare(fd);
}

Connection& Connection::operator=(Connection&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(outgoing_, other.outgoing_);
  std::swap(cutter_, other.cutter_);
  return *this;
}

namespace {

// An attempt to connect that is under way; -1 and errno if it failed at once.
int begin_to_connect(const std::string& address) {
  const size_t colon = address.rfind(':');
  sockaddr_in to{};
  to.sin_family = AF_INET;
  if (colon == std::string::npos || ::inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr) != 1)
    fail(ErrorCode::io, "'{}' is no IPv4 address and port", address);
  to.sin_port = htons(static_cast<uint16_t>(std::atoi(address.c_str() + colon + 1)));
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd >= 0 && ::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)) != 0 && errno != EINPROGRESS) {
    const int reason = errno;
    ::close(fd);
    errno = reason;
    return -1;
  }
  return fd;
}

}  // namespace

Connection Connection::to(const std::string& addresses) {
  std::vector<pollfd> attempts;
  int reason = ETIMEDOUT;
  std::istringstream list(addresses);
  for (std::string address; std::getline(list, address, ',');) {
    const int fd = begin_to_connect(address);
    if (fd >= 0)
      attempts.push_back({fd, POLLOUT, 0});
    else
      reason = errno;
  }
  int found = -1;
  const auto limit = Clock::now() + kConnectLimit;
  while (found < 0 && !attempts.empty() && Clock::now() < limit) {
    ::poll(attempts.data(), attempts.size(), milliseconds_until(limit));
    for (auto& attempt : attempts) {
      if (!attempt.revents || found >= 0) continue;
      int error = 0;
      socklen_t size = sizeof(error);
      ::getsockopt(attempt.fd, SOL_SOCKET, SO_ERROR, &error, &size);
      if (error) reason = error;
      if (error) ::close(std::exchange(attempt.fd, -1));
      if (!error) found = std::exchange(attempt.fd, -1);
    }
    std::erase_if(attempts, [](const pollfd& attempt) { return attempt.fd < 0; });
  }
  for (const auto& attempt : attempts) ::close(attempt.fd);
  if (found < 0)
    fail(ErrorCode::io,
         "cannot reach the supervisor at {}: {}. Does a firewall forbid connections between the hosts?",
         addresses, std::strerror(reason));
  return Connection(found);
}

void Connection::send(const std::string& line) {
  if (!is_open()) return;
  outgoing_ += line;
  flush();
}

void Connection::flush() {
  size_t sent = 0;
  while (is_open() && sent < outgoing_.size()) {
    const ssize_t n = ::send(fd_, outgoing_.data() + sent, outgoing_.size() - sent, MSG_NOSIGNAL);
    if (n >= 0) {
      sent += static_cast<size_t>(n);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    } else if (errno != EINTR) {
      close();
      return;
    }
  }
  outgoing_.erase(0, sent);
}

bool Connection::read_some(std::string& chunk) {
  chunk.resize(64 * 1024);
  for (;;) {
    const ssize_t n = ::recv(fd_, chunk.data(), chunk.size(), 0);
    if (n > 0) {
      chunk.resize(static_cast<size_t>(n));
      return true;
    }
    if (n < 0 && errno == EINTR) continue;
    if (n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) close();
    return false;
  }
}

void Connection::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  outgoing_.clear();
}

Listener::Listener(Reach reach) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(reach == Reach::this_host ? INADDR_LOOPBACK : INADDR_ANY);
  socklen_t size = sizeof(address);
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  if (fd_ < 0 || ::bind(fd_, raw, size) != 0 || ::listen(fd_, 1024) != 0 ||
      ::getsockname(fd_, raw, &size) != 0)
    fail(ErrorCode::io, "cannot listen for the guards: {}", std::strerror(errno));
  std::vector<OwnAddress> own;
  if (reach == Reach::other_hosts) own = own_addresses();
  if (own.empty()) own.push_back({.interface = "lo", .address = INADDR_LOOPBACK});
  for (const auto& one : own)
    addresses_ +=
        fmt::format("{}{}:{}", addresses_.empty() ? "" : ",", to_text(one.address), ntohs(address.sin_port));
}

Listener::~Listener() {
  ::close(fd_);
}

Connection Listener::accept() {
  const int fd = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
  return fd < 0 ? Connection() : Connection(fd);
}

std::vector<OwnAddress> own_addresses() {
  std::vector<OwnAddress> found;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return found;
  for (const ifaddrs* at = list; at; at = at->ifa_next) {
    const bool usable = at->ifa_addr && at->ifa_addr->sa_family == AF_INET && at->ifa_netmask &&
                        (at->ifa_flags & IFF_UP) && !(at->ifa_flags & IFF_LOOPBACK);
    if (!usable) continue;
    const auto of = [](const sockaddr* address) {
      return ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr);
    };
    found.push_back({at->ifa_name, of(at->ifa_addr), std::popcount(of(at->ifa_netmask))});
  }
  ::freeifaddrs(list);
  return found;
}

std::string to_text(uint32_t address) {
  return fmt::format("{}.{}.{}.{}", address >> 24, address >> 16 & 255, address >> 8 & 255, address & 255);
}

int free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof(address);
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  const bool found = fd >= 0 && ::bind(fd, raw, size) == 0 && ::getsockname(fd, raw, &size) == 0;
  if (fd >= 0) ::close(fd);
  return found ? ntohs(address.sin_port) : 0;
}

}  // namespace trireme::process
