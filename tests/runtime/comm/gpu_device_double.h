// A double of a GPU for its kernels: the names of runtime/comm/gpu_device.h, for the host. Include it
// before a kernel's source. A launch runs its blocks one after the other in an order of chance, the threads
// of a block as fibers: one runs until it waits for its team or its block, then another. Shared memory begins
// as NaNs. That threads of a team take part in an exchange that others have left, or wait at different
// places, is an error.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <stdexcept>
#include <vector>

#define TRIREME_GPU_DOUBLE
// A program may hold the kernels for the GPU too: those of the double have names of their own.
#define gpu gpu_double
#define __global__
#define __device__
#define __forceinline__ inline

namespace trireme::gpu {

/// Goes on where `to` stopped; what was here goes on when somebody comes back to `from`. gpu_double.cpp
extern "C" void trireme_switch_stack(void** from, void* to);
/// A stack on which trireme_switch_stack begins with a call of `entry`, which must not return.
void* first_switch(char* stack, size_t bytes, void (*entry)());

struct Dim {
  unsigned x = 0;
};
inline Dim threadIdx, blockIdx, blockDim, gridDim;

using Stream = void*;
using Error = int;
inline constexpr Error kSuccess = 0;
inline Error last_error() {
  return kSuccess;
}
inline const char* error_text(Error) {
  return "";
}
template <typename Kernel>
Error allow_shared(Kernel*, int) {
  return kSuccess;
}

inline constexpr int kTeam = 32;

/// The block under way.
class Block {
 public:
  static Block& present() {
    static Block block;
    return block;
  }

  void run(int threads, int shared_bytes, const std::function<void()>& kernel) {
    kernel_ = &kernel;
    shared_.assign(static_cast<size_t>(shared_bytes) / 16 + 1, {});
    std::memset(shared_.data(), 0xff, shared_.size() * 16);
    fibers_.resize(std::max(fibers_.size(), static_cast<size_t>(threads)));
    threads_ = threads;
    all_ = {threads};
    teams_.assign(static_cast<size_t>((threads + kTeam - 1) / kTeam), {});
    for (int t = 0; t < threads; ++t) {
      ++teams_[static_cast<size_t>(t / kTeam)].running;
      start(t);
    }
    while (all_.running > 0) {
      bool moved = false;
      for (int t = 0; t < threads; ++t) {
        Fiber& fiber = fibers_[static_cast<size_t>(t)];
        if (fiber.state != State::ready) continue;
        moved = true;
        current_ = t;
        threadIdx.x = static_cast<unsigned>(t);
        trireme_switch_stack(&scheduler_, fiber.stopped);
        wake_if_complete(t);
      }
      if (!moved) throw std::logic_error("threads of a block wait for one another at different places");
    }
  }

  unsigned char* shared() { return reinterpret_cast<unsigned char*>(shared_.data()); }

  void wait_block() { wait(State::at_block); }
  void wait_team() { wait(State::at_team); }

  /// Each lane of the team gives a value; returns that of lane `source`.
  template <typename T>
  T exchange(T value, int source) {
    static_assert(sizeof(T) <= 8);
    Fiber& own = fibers_[static_cast<size_t>(current_)];
    const int parity = own.exchanges++ % 2;
    std::memcpy(own.given[parity], &value, sizeof value);
    wait_team();
    const int first = static_cast<int>(threadIdx.x) / kTeam * kTeam;
    const Fiber& other = fibers_[static_cast<size_t>(first + source)];
    if (other.exchanges < own.exchanges) throw std::logic_error("a lane is missing from its team's exchange");
    std::memcpy(&value, other.given[parity], sizeof value);
    return value;
  }

 private:
  enum class State { ready, at_team, at_block, over };
  struct Fiber {
    void* stopped = nullptr;
    std::vector<char> stack;
    State state = State::ready;
    int64_t exchanges = 0;
    unsigned char given[2][8];
  };

  static void enter() {
    Block& block = present();
    (*block.kernel_)();
    block.wait(State::over);
  }

  void start(int t) {
    Fiber& fiber = fibers_[static_cast<size_t>(t)];
    if (fiber.stack.empty()) fiber.stack.resize(64 << 10);
    fiber.state = State::ready;
    fiber.exchanges = 0;
    fiber.stopped = first_switch(fiber.stack.data(), fiber.stack.size(), &Block::enter);
  }

  void wait(State state) {
    Fiber& fiber = fibers_[static_cast<size_t>(current_)];
    fiber.state = state;
    trireme_switch_stack(&fiber.stopped, scheduler_);
  }

  // Those that have ended are not waited for, as on a GPU.
  struct Group {
    int running = 0, at_team = 0, at_block = 0;
  };
  void wake_if_complete(int thread) {
    const State now = fibers_[static_cast<size_t>(thread)].state;
    Group& team = teams_[static_cast<size_t>(thread / kTeam)];
    for (Group* group : {&team, &all_}) {
      group->running -= now == State::over;
      group->at_team += now == State::at_team;
      group->at_block += now == State::at_block;
    }
    const int first = thread / kTeam * kTeam;
    if (team.at_team > 0 && team.at_team == team.running) {
      all_.at_team -= team.at_team;
      team.at_team = 0;
      wake(first, std::min(first + kTeam, threads_));
    }
    if (all_.at_block > 0 && all_.at_block == all_.running) {
      all_.at_block = 0;
      for (Group& group : teams_) group.at_block = 0;
      wake(0, threads_);
    }
  }
  void wake(int begin, int end) {
    for (int t = begin; t < end; ++t) {
      State& state = fibers_[static_cast<size_t>(t)].state;
      if (state != State::over) state = State::ready;
    }
  }

  const std::function<void()>* kernel_ = nullptr;
  void* scheduler_ = nullptr;
  std::vector<Fiber> fibers_;
  std::vector<std::array<unsigned char, 16>> shared_;
  std::vector<Group> teams_;
  Group all_;
  int threads_ = 0, current_ = 0;
};

inline int lane() {
  return static_cast<int>(threadIdx.x) % kTeam;
}
inline int team() {
  return static_cast<int>(threadIdx.x) / kTeam;
}
inline int teams_of_block() {
  return static_cast<int>(blockDim.x) / kTeam;
}
template <typename T>
T from_lane(T value, int source) {
  return Block::present().exchange(value, source);
}
template <typename T>
T from_lane_xor(T value, int mask) {
  return Block::present().exchange(value, lane() ^ mask);
}
inline void sync_team() {
  Block::present().wait_team();
}
inline void sync_block() {
  Block::present().wait_block();
}
inline unsigned char* shared_memory() {
  return Block::present().shared();
}
template <typename T>
void add_shared(T* to, T value) {
  *to += value;
}
inline uint64_t high_product(uint64_t a, uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>((static_cast<Wide>(a) * b) >> 64);
}

struct Launch {
  Stream stream;
  int64_t blocks;
  int threads;
  int shared_bytes = 0;
};

template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), const Launch& how, const Arguments&... arguments) {
  static std::mt19937 random(1);
  if (how.blocks < 1 || how.threads < 1) throw std::logic_error("an empty launch");
  std::vector<unsigned> order(static_cast<size_t>(how.blocks));
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<unsigned>(i);
  std::shuffle(order.begin(), order.end(), random);
  gridDim.x = static_cast<unsigned>(how.blocks);
  blockDim.x = static_cast<unsigned>(how.threads);
  for (const unsigned block : order) {
    blockIdx.x = block;
    Block::present().run(how.threads, how.shared_bytes, [&] { kernel(arguments...); });
  }
}

}  // namespace trireme::gpu
