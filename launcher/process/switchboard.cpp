#include "launcher/process/switchboard.h"

#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "runtime/base/error.h"

namespace trireme::process {
namespace {

constexpr size_t kLongestReport = 64 << 20;
constexpr size_t kLongestHello = 4096;

}  // namespace

void Switchboard::add_to(std::vector<pollfd>& watched) const {
  watched.push_back({listener_.fd(), POLLIN, 0});
  for (const auto& peer : peers_) {
    const short send = peer.connection.backlog() ? POLLOUT : 0;
    watched.push_back({peer.connection.fd(), static_cast<short>(POLLIN | send), 0});
  }
}

void Switchboard::serve(const std::vector<pollfd>& watched, size_t first) {
  size_t i = first + 1;
  for (auto& peer : peers_)
    if (watched[i++].revents) hear(peer);
  if (watched[first].revents)
    if (auto connection = listener_.accept(); connection.is_open())
      peers_.push_back({.connection = std::move(connection)});
  peers_.remove_if([](const Peer& peer) { return !peer.connection.is_open(); });
}

void Switchboard::hear(Peer& peer) {
  peer.connection.flush();
  peer.connection.receive(peer.rank < 0 ? kLongestHello : kLongestReport, [&](const std::string& line) {
    try {
      understand(peer, plan::decode_report(line));
    } catch (const Error& error) {
      peer.connection.close();
      if (peer.rank >= 0) handlers_.complaint(peer.rank, error.message());
    }
  });
  if (!peer.connection.is_open() && peer.rank >= 0) handlers_.lost(peer.rank, false);
}

void Switchboard::understand(Peer& peer, plan::Report report) {
  peer.last_heard = Clock::now();
  const auto* hello = std::get_if<plan::Hello>(&report);
  const bool introduces_itself = hello && hello->secret == secret_;
  if (introduces_itself != (peer.rank < 0)) fail(ErrorCode::corrupt_data, "a stranger connected");
  handlers_.report(peer, std::move(report));
}

void Switchboard::send_all(const std::string& line) {
  for (auto& peer : peers_)
    if (peer.rank >= 0) peer.connection.send(line);
}

void Switchboard::send_to(int rank, const std::string& line) {
  for (auto& peer : peers_)
    if (peer.rank == rank) peer.connection.send(line);
}

void Switchboard::flush() {
  for (auto& peer : peers_)
    for (int i = 0; i < 100 && peer.connection.backlog(); ++i, ::usleep(1000)) peer.connection.flush();
}

void Switchboard::find_silent(Clock::duration limit) {
  const auto now = Clock::now();
  for (const auto& peer : peers_)
    if (peer.rank >= 0 && now > peer.last_heard + limit) handlers_.lost(peer.rank, true);
}

void Switchboard::forgive_silence() {
  for (auto& peer : peers_) peer.last_heard = Clock::now();
}

std::vector<pid_t> Switchboard::guards_of_this_host() const {
  std::vector<pid_t> pids;
  for (const auto& peer : peers_)
    if (peer.guard_pid > 0) pids.push_back(peer.guard_pid);
  return pids;
}

std::string make_secret() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    fail(ErrorCode::io, "the system gives no random numbers: {}", std::strerror(errno));
  std::string text;
  for (const auto byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace trireme::process
