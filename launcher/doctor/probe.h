// What only a program on the host can find out: what it may open, how fast it writes, what other programs
// say.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace trireme::doctor {

/// What to try.
struct ProbeRequest {
  std::string trainer;             // trireme-trainer, which is asked for its libraries' versions
  std::vector<std::string> read;   // files and folders that every rank reads; absolute
  std::string folder;              // in which checkpoints will lie; absolute, need not exist yet
  std::string token;               // a file that the first host has put there
  int64_t write_bytes = 64 << 20;  // to find out how fast it is
};

struct Probe {
  std::map<std::string, std::string>
      versions;  // "torch" -> "2.11.0", "build of trireme" -> a sum of its bytes
  std::map<std::string, std::string> unreadable;  // path -> why
  std::map<std::string, std::string> closed;      // device file -> why it cannot be opened
  std::vector<std::string> kernel;                // what its log says about GPUs and network since the start
  std::string gpus;                               // what nvidia-smi says, one line a GPU; gpu_state.h

  struct Folder {
    std::string error;           // not empty: nothing can be written there
    bool sees_token = true;      // whether the first host's file is there
    int64_t free_bytes = 0;      // for this user
    double write_seconds = 0.0;  // of write_bytes, until they were on the disk
  } folder;
  int64_t shared_memory_bytes = 0, shared_memory_free = 0;  // of /dev/shm
  int64_t clock_ns = 0;                                     // the time of day when this was sent
};

/// Tries all of it; no failure is an error here. Some seconds.
Probe probe_this_host(const ProbeRequest& request);
/// CLOCK_REALTIME.
int64_t time_of_day_ns();
/// The folder, or the nearest one above it that exists.
std::string existing_folder(const std::string& path);

/// On their way to a host, and back: one line of JSON. Reading throws corrupt_data.
std::string to_json(const ProbeRequest& request);
std::string to_json(const Probe& probe);
ProbeRequest probe_request_from(const std::string& text);
Probe probe_from(const std::string& text);

}  // namespace trireme::doctor
