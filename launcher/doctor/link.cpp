#include "launcher/doctor/link.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "launcher/process/clock.h"
#include "runtime/base/error.h"

namespace trireme::doctor {
namespace {

using namespace std::chrono_literals;
using process::Clock;

constexpr auto kStream = 150ms;  // in each direction
constexpr int kRoundTrips = 5;

// A socket that is closed at its end, and whose every wait ends at a deadline. Throws io.
class Socket {
 public:
  Socket(int fd, Clock::time_point deadline) : fd_(fd), deadline_(deadline) {
    const int on = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  ~Socket() { ::close(fd_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  int fd() const { return fd_; }
  void wait(short events) const {
    pollfd watched{fd_, events, 0};
    if (::poll(&watched, 1, process::milliseconds_until(deadline_)) <= 0)
      fail(ErrorCode::timeout, "no answer in time");
  }
  size_t write_some(const char* data, size_t size) const {
    wait(POLLOUT);
    const ssize_t n = ::send(fd_, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno != EAGAIN) fail(ErrorCode::io, "{}", std::strerror(errno));
    return n < 0 ? 0 : static_cast<size_t>(n);
  }
  size_t read_some(char* data, size_t size) const {  // 0 only at the end
    for (;;) {
      wait(POLLIN);
      const ssize_t n = ::recv(fd_, data, size, MSG_DONTWAIT);
      if (n >= 0) return static_cast<size_t>(n);
      if (errno != EAGAIN) fail(ErrorCode::io, "{}", std::strerror(errno));
    }
  }
  void write(const std::string& text) const {
    for (size_t at = 0; at < text.size();) at += write_some(text.data() + at, text.size() - at);
  }
  std::string read(size_t size) const {
    std::string text(size, '\0');
    for (size_t at = 0; at < size;) {
      const size_t n = read_some(text.data() + at, size - at);
      if (n == 0) fail(ErrorCode::io, "the connection ended");
      at += n;
    }
    return text;
  }

 private:
  int fd_;
  Clock::time_point deadline_;
};

// As much as goes into some time, then the end of this direction.
void stream_out(const Socket& socket) {
  const std::vector<char> chunk(1 << 18, 'x');
  for (const auto end = Clock::now() + kStream; Clock::now() < end;)
    socket.write_some(chunk.data(), chunk.size());
  ::shutdown(socket.fd(), SHUT_WR);
}

// Bytes a second of all that comes: what has arrived, and not what a sender's buffers took.
double stream_in(const Socket& socket) {
  std::vector<char> chunk(1 << 18);
  int64_t bytes = 0;
  Clock::time_point began;
  while (const size_t n = socket.read_some(chunk.data(), chunk.size())) {
    if (bytes == 0) began = Clock::now();
    bytes += static_cast<int64_t>(n);
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - began).count();
  return bytes > 0 ? static_cast<double>(bytes) / std::max(seconds, 1e-6) : 0.0;
}

int begin_to_connect(const std::string& address) {
  const auto colon = address.rfind(':');
  sockaddr_in to{};
  to.sin_family = AF_INET;
  if (colon == std::string::npos || ::inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr) != 1)
    fail(ErrorCode::io, "'{}' is no IPv4 address and port", address);
  to.sin_port = htons(static_cast<uint16_t>(std::atoi(address.c_str() + colon + 1)));
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) fail(ErrorCode::io, "{}", std::strerror(errno));
  if (::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)) != 0 && errno != EINPROGRESS) {
    const int reason = errno;
    ::close(fd);
    fail(ErrorCode::io, "{}", std::strerror(reason));
  }
  return fd;
}

void finish_connecting(const Socket& socket) {
  socket.wait(POLLOUT);
  int error = 0;
  socklen_t size = sizeof(error);
  ::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error) fail(ErrorCode::io, "{}", std::strerror(error));
}

}  // namespace

LinkEnd::LinkEnd() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof(address);
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  if (fd_ < 0 || ::bind(fd_, raw, size) != 0 || ::listen(fd_, 64) != 0 || ::getsockname(fd_, raw, &size) != 0)
    fail(ErrorCode::io, "cannot listen for other hosts: {}", std::strerror(errno));
  port_ = ntohs(address.sin_port);
}

LinkEnd::~LinkEnd() {
  if (fd_ >= 0) ::close(fd_);
}

Link LinkEnd::connect(const std::string& address, const std::string& secret,
                      std::chrono::milliseconds limit) const {
  Link link;
  try {
    const Socket socket(begin_to_connect(address), Clock::now() + limit);
    finish_connecting(socket);
    socket.write(secret);
    link.round_trip = 1e9;
    for (int i = 0; i < kRoundTrips; ++i) {
      const auto began = Clock::now();
      socket.write("?");
      socket.read(1);
      link.round_trip =
          std::min(link.round_trip, std::chrono::duration<double>(Clock::now() - began).count());
    }
    stream_out(socket);
    // The other end measures what it gets, tells it in 16 characters, and sends then.
    link.there = std::strtod(socket.read(16).c_str(), nullptr);
    link.back = stream_in(socket);
  } catch (const Error& error) {
    link.error = error.message();
  }
  return link;
}

void LinkEnd::accept(const std::string& secret, std::chrono::milliseconds limit) const {
  const auto deadline = Clock::now() + limit;
  try {
    for (;;) {
      pollfd watched{fd_, POLLIN, 0};
      if (::poll(&watched, 1, process::milliseconds_until(deadline)) <= 0) return;
      const int fd = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) continue;
      const Socket socket(fd, deadline);
      if (socket.read(secret.size()) != secret) continue;
      for (int i = 0; i < kRoundTrips; ++i) socket.write(socket.read(1));
      const auto rate = fmt::format("{:16.6e}", stream_in(socket));
      socket.write(rate);
      stream_out(socket);
      return;
    }
  } catch (const Error&) {
    // The connecting end tells what went wrong.
  }
}

}  // namespace trireme::doctor
