// What collectives on the CPU take, beside Open MPI's own, in turns of one run:
//   cmake --build build/cpu --target collectives_bench
//   mpirun -np 4 --oversubscribe --bind-to none build/cpu/tools/bench/collectives_bench [ROUNDS [MIB ...]]
// Sizes are those of nccl-tests: what a rank puts in or gets out, whichever is more. A time is the slowest
// rank's; each line shows the median and the best of its rounds.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/comm/mpi_communicator.h"

namespace trireme::comm {
namespace {

using Clock = std::chrono::steady_clock;

struct Contest {
  std::string name;
  std::function<void()> ours, theirs;  // `theirs` on the communication thread
};

class Bench {
 public:
  Bench(MpiThread& thread, int rounds)
      : thread_(thread), comm_(thread, "world", all_ranks(thread)), rounds_(rounds) {}

  Communicator& comm() { return comm_; }
  void say(const std::string& line) {
    if (comm_.rank() == 0) std::puts(line.c_str());
  }

  void run(const Contest& contest, int64_t bytes) {
    std::vector<double> ours, theirs;
    for (int round = -1; round < rounds_; ++round) {  // the first touches memory
      const double a = slowest(contest.ours);
      const double b = slowest([&] { thread_.call(contest.theirs); });
      if (round < 0) continue;
      ours.push_back(a);
      theirs.push_back(b);
    }
    std::sort(ours.begin(), ours.end());
    std::sort(theirs.begin(), theirs.end());
    const size_t middle = ours.size() / 2;
    say(fmt::format(
        "{:<28}{:>7.2f} MiB  ours {:9.3f} ms (best {:9.3f})  MPI {:9.3f} ms (best {:9.3f})  MPI/ours {:5.2f} "
        "(best {:5.2f})",
        contest.name, static_cast<double>(bytes) / (1 << 20), ours[middle] * 1e3, ours[0] * 1e3,
        theirs[middle] * 1e3, theirs[0] * 1e3, theirs[middle] / ours[middle], theirs[0] / ours[0]));
  }

 private:
  double slowest(const std::function<void()>& work) {
    comm_.barrier();
    const auto begin = Clock::now();
    work();
    return comm_.all_reduce_scalar(std::chrono::duration<double>(Clock::now() - begin).count(),
                                   ReduceOp::max);
  }

  MpiThread& thread_;
  MpiCommunicator comm_;
  int rounds_;
};

void measure(Bench& bench, int64_t bytes) {
  Communicator& comm = bench.comm();
  const int n = comm.size();
  const int64_t part = bytes / 4 / n, count = part * n;
  std::vector<float> a(count, 1.0f), b(count, 1.0f);
  const BufferView whole{b.data(), count, DType::f32}, own{b.data(), part, DType::f32};
  const ConstBufferView in{a.data(), count, DType::f32};
  const std::vector<int64_t> counts(n, part);
  std::vector<int> c(n, static_cast<int>(part)), places(n);
  for (int r = 0; r < n; ++r) places[r] = static_cast<int>(r * part);
  const BufferView sum{a.data(), count, DType::f32};
  const int right = (comm.rank() + 1) % n, left = (comm.rank() + n - 1) % n;
  const Send send[] = {{right, in}};
  const Receive receive[] = {{left, whole}};
  const std::vector<Contest> contests{
      {"all_reduce sum", [&] { comm.all_reduce(sum); },
       [&] {
         MPI_Allreduce(MPI_IN_PLACE, a.data(), static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
       }},
      {"reduce_scatter sum", [&] { comm.reduce_scatter_v(in, own, counts); },
       [&] { MPI_Reduce_scatter(a.data(), b.data(), c.data(), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); }},
      {"all_gather_v", [&] { comm.all_gather_v(in.slice(0, part), whole, counts); },
       [&] {
         MPI_Allgatherv(a.data(), c[0], MPI_FLOAT, b.data(), c.data(), places.data(), MPI_FLOAT,
                        MPI_COMM_WORLD);
       }},
      {"all_to_all_v", [&] { comm.all_to_all_v(in, counts, whole, counts); },
       [&] {
         MPI_Alltoallv(a.data(), c.data(), places.data(), MPI_FLOAT, b.data(), c.data(), places.data(),
                       MPI_FLOAT, MPI_COMM_WORLD);
       }},
      {"broadcast", [&] { comm.broadcast(whole, 0); },
       [&] { MPI_Bcast(b.data(), static_cast<int>(count), MPI_FLOAT, 0, MPI_COMM_WORLD); }},
      {"send_recv (ring)", [&] { comm.send_recv(send, receive); },
       [&] {
         MPI_Sendrecv(a.data(), static_cast<int>(count), MPI_FLOAT, right, 0, b.data(),
                      static_cast<int>(count), MPI_FLOAT, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
       }},
  };
  for (const Contest& contest : contests) bench.run(contest, bytes);
}

}  // namespace
}  // namespace trireme::comm

int main(int argc, char** argv) {
  using namespace trireme::comm;
  MpiThread thread;
  {
    Bench bench(thread, argc > 1 ? std::atoi(argv[1]) : 7);
    std::vector<double> sizes;
    for (int i = 2; i < argc; ++i) sizes.push_back(std::atof(argv[i]));
    if (sizes.empty()) sizes = {1, 16, 64};
    bench.say(mpi_version());
    for (const double mib : sizes) measure(bench, static_cast<int64_t>(mib * (1 << 20)));
  }
  thread.finalize();
}
