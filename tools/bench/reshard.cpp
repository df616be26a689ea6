// A model's weights from one layout to another, beside the usual way: gather the whole model on one rank,
// broadcast it, and let every rank keep its slice. In turns of one run:
//   mpirun -np 4 --oversubscribe --bind-to none reshard_bench MODEL_FOLDER [ROUNDS [MIB_OF_STAGING]]
// A time is the slowest rank's; each line shows the median and the best of its rounds. Only config.json is
// read of the folder. Both ways must end in the same bytes on every rank.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/comm/mpi_communicator.h"
#include "runtime/tensors/reshard_traffic.h"
#include "runtime/tensors/resharder.h"
#include "runtime/tensors/shard_reads.h"
#include "trainer/models/parameter_spec.h"

namespace {

using namespace trireme;
using namespace trireme::tensors;
using Clock = std::chrono::steady_clock;

int64_t width(comm::DType dtype) {
  return static_cast<int64_t>(comm::size_of(dtype));
}

// One rank's memory in a layout.
class Memory {
 public:
  Memory(const std::vector<TensorSpec>& tensors, const Layout& layout, int rank) : dtype_(layout.dtype) {
    const ShardMap map(tensors, layout);
    const auto at = map.find(rank);
    if (!at) return;
    for (int block = 0; block < map.num_blocks(); ++block)
      storage_.emplace_back(static_cast<size_t>(map.stored(at->t, block) * width(dtype_)));
    for (auto& block : storage_) blocks_.push_back(block.data());
  }
  BlockMemory view() const { return {blocks_, dtype_}; }
  const std::vector<std::vector<std::byte>>& blocks() const { return storage_; }
  void clear() {
    for (auto& block : storage_) std::fill(block.begin(), block.end(), std::byte{0});
  }
  /// Small whole numbers by the element's place in its tensor.
  void fill(const std::vector<TensorSpec>& tensors, const Layout& layout, int rank) {
    constexpr int64_t kPeriod = 251;
    std::vector<float> numbers(2 * kPeriod);
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i % kPeriod);
    for (const ShardRead& read : reads_of_tensors(ShardMap(tensors, layout), rank))
      for_each_common_run(read.from, read.to, [&](int64_t whole, int64_t mine, int64_t count) {
        for (int64_t i = 0; i < count; i += kPeriod)
          convert(reinterpret_cast<const std::byte*>(&numbers[(whole + i) % kPeriod]), comm::DType::f32,
                  blocks_[read.block] + (mine + i) * width(dtype_), dtype_, std::min(kPeriod, count - i));
      });
  }

 private:
  comm::DType dtype_;
  std::vector<std::vector<std::byte>> storage_;
  std::vector<std::byte*> blocks_;
};

// Rank 0 of the source gathers the model in the destination's type, broadcasts it block by block, and each
// rank copies its slices out of it.
class GatherAndBroadcast {
 public:
  GatherAndBroadcast(comm::Communicator& world, const Reshard& reshard)
      : world_(world),
        tensors_(reshard.tensors),
        whole_(layout_of(reshard)),
        root_(whole_.mesh.ranks[0]),
        gather_(world, {tensors_, reshard.from, whole_, reshard.node_of, reshard.options}) {
    Layout here = whole_;
    here.mesh.ranks = {world.rank()};
    const ShardMap map(tensors_, here);
    for (int i = 0; i < static_cast<int>(tensors_.size()); ++i)
      offsets_.push_back(map.place(0, 0, i, map.slice(0, i)).offset);
    for (int block = 0; block < map.num_blocks(); ++block) numel_.push_back(map.stored(0, block));
    buffer_ = std::make_unique<Memory>(tensors_, here, world.rank());
    for (const ShardRead& read : reads_of_tensors(ShardMap(tensors_, reshard.to), world.rank())) {
      Strided from = read.from;
      from.offset += offsets_[read.tensor];
      copies_.push_back({read.block, from, read.to});
    }
  }
  void run(const BlockMemory& from, const BlockMemory& to) {
    gather_.run(from, world_.rank() == root_ ? buffer_->view() : BlockMemory{});
    for (size_t block = 0; block < numel_.size(); ++block)
      world_.broadcast({buffer_->view().blocks[block], numel_[block], whole_.dtype}, root_);
    copy(copies_, buffer_->view(), to);
  }
  /// Of all ranks: what the root lacks, and the model on each rank but the root.
  int64_t bytes(int64_t gathered) const {
    int64_t model = 0;
    for (const int64_t numel : numel_) model += numel * width(whole_.dtype);
    return gathered + model * (world_.size() - 1);
  }
  int64_t sent_bytes() const { return gather_.sent_bytes(); }

 private:
  static Layout layout_of(const Reshard& reshard) {
    Layout whole;
    whole.role = "whole";
    whole.mesh = {1, 1, {reshard.from.mesh.ranks[0]}};
    whole.splits.resize(reshard.tensors.size());
    whole.dtype = reshard.to.dtype;
    return whole;
  }

  comm::Communicator& world_;
  const std::vector<TensorSpec>& tensors_;
  Layout whole_;
  int root_;
  Resharder gather_;
  std::vector<int64_t> offsets_, numel_;
  std::unique_ptr<Memory> buffer_;
  std::vector<LocalCopy> copies_;
};

class Bench {
 public:
  Bench(comm::Communicator& world, const models::DecoderShape& shape, int rounds, int64_t staging_bytes)
      : world_(world),
        tensors_(models::tensor_specs(shape)),
        splits_(models::tensor_splits(shape)),
        rounds_(rounds),
        staging_bytes_(staging_bytes) {}

  Layout layout(const char* role, std::vector<int> ranks, int tp, bool zero, comm::DType dtype) const {
    return {role, placement::Mesh::of(std::move(ranks), tp), splits_, dtype, zero};
  }

  void run(const std::string& title, const Layout& from, const Layout& to) {
    Reshard reshard{tensors_, from, to, std::vector<int>(world_.size())};
    reshard.options.staging_bytes = staging_bytes_;
    reshard.options.share = false;
    Memory source(tensors_, from, world_.rank()), target(tensors_, to, world_.rank());
    source.fill(tensors_, from, world_.rank());
    const auto begin = Clock::now();
    Resharder resharder(world_, reshard);
    const double plan_seconds = most(seconds_since(begin));
    GatherAndBroadcast usual(world_, reshard);

    std::vector<double> ours, theirs;
    for (int round = -1; round < rounds_; ++round) {  // the first touches memory
      const double a = time([&] { resharder.run(source.view(), target.view()); });
      const double b = time([&] { usual.run(source.view(), target.view()); });
      if (round < 0) continue;
      ours.push_back(a);
      theirs.push_back(b);
    }
    expect_equal(
        target, [&] { resharder.run(source.view(), target.view()); },
        [&] { usual.run(source.view(), target.view()); });
    std::sort(ours.begin(), ours.end());
    std::sort(theirs.begin(), theirs.end());
    const Traffic traffic = traffic_of(reshard);
    const auto sent = sum(resharder.sent_bytes()), gathered = sum(usual.sent_bytes());
    if (world_.rank() != 0) return;
    const double usual_bytes = static_cast<double>(usual.bytes(gathered));
    fmt::print("{}\n", title);
    fmt::print(
        "  reshard               {:8.1f} ms (best {:8.1f})  {:8.1f} MB between ranks, bound {:8.1f}; {} "
        "rounds, "
        "planned in {:.1f} ms\n",
        ours[ours.size() / 2] * 1e3, ours[0] * 1e3, static_cast<double>(sent) / 1e6,
        static_cast<double>(traffic.moved_bound) / 1e6, traffic.num_rounds, plan_seconds * 1e3);
    fmt::print("  gather and broadcast  {:8.1f} ms (best {:8.1f})  {:8.1f} MB between ranks\n",
               theirs[theirs.size() / 2] * 1e3, theirs[0] * 1e3, usual_bytes / 1e6);
    fmt::print("  ratio                 {:8.2f}    (best {:8.2f})  {:8.2f}\n",
               theirs[theirs.size() / 2] / ours[ours.size() / 2], theirs[0] / ours[0],
               usual_bytes / static_cast<double>(sent));
    std::fflush(stdout);
  }

 private:
  static double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }
  double most(double value) { return world_.all_reduce_scalar(value, comm::ReduceOp::max); }
  int64_t sum(int64_t value) {
    return static_cast<int64_t>(world_.all_reduce_scalar(static_cast<double>(value)));
  }
  double time(const std::function<void()>& work) {
    world_.barrier();
    const auto begin = Clock::now();
    work();
    return most(seconds_since(begin));
  }
  void expect_equal(Memory& target, const std::function<void()>& a, const std::function<void()>& b) {
    target.clear();
    a();
    const std::vector<std::vector<std::byte>> first = target.blocks();
    target.clear();
    b();
    TRIREME_CHECK(target.blocks() == first, "rank {}: the two ways differ", world_.rank());
  }

  comm::Communicator& world_;
  std::vector<TensorSpec> tensors_;
  std::vector<Split> splits_;
  int rounds_;
  int64_t staging_bytes_;
};

void measure(comm::MpiThread& thread, const std::string& folder, int rounds, int64_t staging_bytes) {
  using comm::DType;
  comm::MpiCommunicator world(thread, "world", comm::all_ranks(thread));
  TRIREME_CHECK(world.size() == 4, "start it on 4 ranks");
  Bench bench(world, models::DecoderShape::from_folder(folder), rounds, staging_bytes);
  const std::vector<int> all{0, 1, 2, 3};
  bench.run("tp 2 x dp 2 -> tp 1 x dp 4, the same 4 ranks, bf16",
            bench.layout("actor", all, 2, false, DType::bf16),
            bench.layout("rollout", all, 1, false, DType::bf16));
  bench.run("tp 2 on ranks 0 1 -> tp 1 x dp 2 on ranks 2 3, bf16",
            bench.layout("actor", {0, 1}, 2, false, DType::bf16),
            bench.layout("rollout", {2, 3}, 1, false, DType::bf16));
  bench.run("dp 4 (ZeRO) -> tp 2 x dp 2, the same 4 ranks, bf16",
            bench.layout("actor", all, 1, true, DType::bf16),
            bench.layout("rollout", all, 2, false, DType::bf16));
  bench.run("dp 4 (ZeRO), fp32 masters -> tp 2 x dp 2, the same 4 ranks, bf16",
            bench.layout("actor", all, 1, true, DType::f32),
            bench.layout("rollout", all, 2, false, DType::bf16));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "reshard_bench MODEL_FOLDER [ROUNDS [MIB_OF_STAGING]]\n");
    return 2;
  }
  comm::MpiThread thread;
  measure(thread, argv[1], argc > 2 ? std::stoi(argv[2]) : 5, (argc > 3 ? std::stoll(argv[3]) : 256) << 20);
  thread.finalize();
}
