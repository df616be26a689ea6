// All connections to the guards of a job, on the supervisor's side: who has said who he is, who sends what,
// who has fallen silent.
#pragma once

#include <poll.h>

#include <functional>
#include <list>
#include <string>
#include <vector>

#include "launcher/process/clock.h"
#include "launcher/process/connection.h"
#include "runtime/plan/rank_report.h"

namespace trireme::process {

class Switchboard {
 public:
  struct Peer {
    Connection connection;
    int rank = -1;        // until it has said who it is
    pid_t guard_pid = 0;  // 0: not of this host
    Clock::time_point last_heard = Clock::now();
  };
  struct Handlers {
    /// Of a peer that knows the secret. The first one is its Hello, upon which its rank must be set. May
    /// throw corrupt_data: the connection is closed.
    std::function<void(Peer&, plan::Report)> report;
    /// Of a peer that had a rank.
    std::function<void(int rank, bool fell_silent)> lost;
    /// A peer with a rank sent what makes no sense.
    std::function<void(int rank, const std::string& message)> complaint;
  };

  Switchboard(Listener::Reach reach, std::string secret, Handlers handlers)
      : listener_(reach), secret_(std::move(secret)), handlers_(std::move(handlers)) {}

  const std::string& addresses() const { return listener_.addresses(); }
  void add_to(std::vector<pollfd>& watched) const;
  /// What poll() found for the descriptors of add_to, which begin at `first`.
  void serve(const std::vector<pollfd>& watched, size_t first);

  void send_all(const std::string& line);
  void send_to(int rank, const std::string& line);
  /// Tries for up to 0.1 s a peer to get everything out.
  void flush();
  /// Those that have not been heard of for so long are told to be lost. Does not close them.
  void find_silent(Clock::duration limit);
  /// All count as just heard.
  void forgive_silence();
  std::vector<pid_t> guards_of_this_host() const;
  size_t size() const { return peers_.size(); }

 private:
  void hear(Peer& peer);
  void understand(Peer& peer, plan::Report report);

  Listener listener_;
  std::string secret_;
  Handlers handlers_;
  std::list<Peer> peers_;
};

/// 16 random bytes as text. Throws io.
std::string make_secret();

}  // namespace trireme::process
