#include "launcher/process/connection.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "runtime/base/error.h"

namespace trireme::process {
namespace {

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

Connection Connection::to(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) fail(ErrorCode::io, "'{}' is no host:port", address);
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const int error =
      ::getaddrinfo(address.substr(0, colon).c_str(), address.substr(colon + 1).c_str(), &hints, &found);
  if (error) fail(ErrorCode::io, "cannot find {}: {}", address, ::gai_strerror(error));
  int fd = -1, reason = 0;
  for (addrinfo* at = found; at && fd < 0; at = at->ai_next) {
    fd = ::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
    if (fd >= 0 && ::connect(fd, at->ai_addr, at->ai_addrlen) == 0) break;
    reason = errno;
    if (fd >= 0) ::close(std::exchange(fd, -1));
  }
  ::freeaddrinfo(found);
  if (fd < 0) fail(ErrorCode::io, "cannot reach the supervisor at {}: {}", address, std::strerror(reason));
  return Connection(fd);
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

Listener::Listener() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  if (fd_ < 0 || ::bind(fd_, raw, size) != 0 || ::listen(fd_, 1024) != 0 ||
      ::getsockname(fd_, raw, &size) != 0)
    fail(ErrorCode::io, "cannot listen on 127.0.0.1: {}", std::strerror(errno));
  address_ = fmt::format("127.0.0.1:{}", ntohs(address.sin_port));
}

Listener::~Listener() {
  ::close(fd_);
}

Connection Listener::accept() {
  const int fd = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
  return fd < 0 ? Connection() : Connection(fd);
}

}  // namespace trireme::process
