// Starting a program, and making sure that it is gone with all that it started.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace trireme::process {

struct ChildOptions {
  std::vector<std::string> command;      // found on PATH if it has no slash
  std::vector<std::string> environment;  // NAME=value, all of it
  int out = -1, err = -1;                // descriptors; -1: /dev/null. Input is always /dev/null
  int death_signal = 0;                  // sent to it when the thread that starts it ends
  std::vector<int> blocked_signals;      // from its first instruction on; it unblocks them itself
  std::vector<int> cpus;                 // empty: unbound
  int memory_node = -1;                  // preferred; -1: none
};

/// Starts it as the leader of its own process group, all signals at their defaults, and blocked
/// only as asked. Throws io, with the system's reason, also if the program does not exist.
pid_t start_child(const ChildOptions& options);

/// SIGKILL for the process group and for every process that descends from this one, as far as they are
/// re-parented to it (PR_SET_CHILD_SUBREAPER), until none is left; waits for them, but not for longer than
/// `limit`, since a process inside the kernel may not end. False if one is left.
bool kill_descendants(pid_t group, std::chrono::milliseconds limit = std::chrono::seconds(5));

/// What a process of this host is in: "state D, in nfs_wait_bit_killable"; "gone".
std::string process_state(pid_t pid);

/// "SIGKILL"; "signal 77" if it has no name.
std::string signal_name(int signal);

}  // namespace trireme::process
