#include "trainer/weights/sharded_save.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "runtime/base/error.h"
#include "runtime/tensors/resharder.h"
#include "trainer/models/pipeline_stage.h"
#include "trainer/weights/shards.h"

namespace trireme::weights {
namespace {

using tensors::BlockMemory, tensors::Copy, tensors::LocalCopy, tensors::Runs;

constexpr int64_t kMostParcelBytes = 4 << 20;
constexpr int64_t kConvertedElements = 1 << 18;  // at a time, of what the writer holds itself

// An error that waits until nobody waits for this rank.
class Outcome {
 public:
  void attempt(const std::function<void()>& work) {
    if (error_) return;
    try {
      work();
    } catch (const Error& error) {
      error_ = error;
    } catch (const std::exception& error) {
      error_ = Error(ErrorCode::io, error.what());
    }
  }
  /// Collective over: `world`. Returns if nobody had an error.
  void agree(comm::Communicator& world, const std::string& folder) const {
    const auto all = world.all_gather_strings(error_ ? error_->message() : "");
    if (error_) throw Error(*error_);
    for (size_t rank = 0; rank < all.size(); ++rank)
      if (!all[rank].empty())
        fail(ErrorCode::peer_failed, "rank {} could not save its part of {}: {}", rank, folder, all[rank]);
  }

 private:
  std::optional<Error> error_;
};

// The files of one writer as the memory of its layout: element k of a block belongs to one tensor of a file.
class Files : public tensors::ReshardTarget {
 public:
  Files(const std::string& folder, const Shards& shards, comm::DType dtype, Outcome& outcome)
      : folder_(folder), shards_(shards), dtype_(dtype), outcome_(outcome) {}

  /// Those that writer `t` of `to` owns; file_of gives each tensor's.
  void open(const tensors::ShardMap& to, int t, const std::vector<size_t>& file_of) {
    regions_.resize(to.num_blocks());
    files_.resize(shards_.size());
    for (int i = 0; i < static_cast<int>(to.tensors().size()); ++i) {
      if (to.layout().splits[i].owner != t) continue;
      auto& file = files_[file_of[i]];
      if (!file)
        file = std::make_unique<SafetensorsWriter>(
            (std::filesystem::path(folder_) / shards_.name(file_of[i])).string(), shards_.infos(file_of[i]));
      const auto& tensor = to.tensors()[i];
      regions_[tensor.block].push_back({to.place(0, t, i, to.slice(t, i)).offset, file.get(), tensor.name});
    }
  }
  void finish() {
    for (auto& file : files_)
      if (file) file->finish();
  }

  void unpack(std::span<const Copy> copies, const std::byte* buffer, comm::DType wire) override {
    const auto width = static_cast<int64_t>(comm::size_of(wire));
    outcome_.attempt([&] {
      for (const Copy& copy : copies) {
        const std::byte* from = buffer + copy.at;
        for (Runs runs(copy.where); !runs.done(); runs.next()) {
          write(copy.block, runs.offset(), from, runs.length(), wire);
          from += runs.length() * width;
        }
      }
    });
  }
  void copy(std::span<const LocalCopy> copies, const BlockMemory& from) override {
    const auto width = static_cast<int64_t>(comm::size_of(from.dtype));
    outcome_.attempt([&] {
      for (const LocalCopy& copy : copies)
        tensors::for_each_common_run(copy.from, copy.to, [&](int64_t source, int64_t target, int64_t count) {
          write(copy.block, target, from.blocks[copy.block] + source * width, count, from.dtype);
        });
    });
  }

 private:
  struct Region {  // one tensor in the line of a block
    int64_t begin;
    SafetensorsWriter* file;
    std::string name;
  };

  // Elements from `offset` of the block's line on, all of one tensor.
  void write(int block, int64_t offset, const std::byte* from, int64_t count, comm::DType dtype) {
    const auto& regions = regions_[block];
    const auto after = std::ranges::upper_bound(regions, offset, {}, &Region::begin);
    const Region& region = *std::prev(after);
    const auto width = static_cast<int64_t>(comm::size_of(dtype_));
    for (int64_t first = 0; first < count;) {
      const int64_t part = dtype == dtype_ ? count : std::min(kConvertedElements, count - first);
      const std::byte* bytes = from + first * static_cast<int64_t>(comm::size_of(dtype));
      if (dtype != dtype_) {
        converted_.resize(static_cast<size_t>(kConvertedElements * width));
        tensors::convert(bytes, dtype, converted_.data(), dtype_, part);
        bytes = converted_.data();
      }
      region.file->write_part(region.name, static_cast<uint64_t>((offset - region.begin + first) * width),
                              {bytes, static_cast<size_t>(part * width)});
      first += part;
    }
  }

  std::string folder_;
  const Shards& shards_;
  comm::DType dtype_;
  Outcome& outcome_;
  std::vector<std::unique_ptr<SafetensorsWriter>> files_;
  std::vector<std::vector<Region>> regions_;  // by block, ascending
  std::vector<std::byte> converted_;
};

// The ranks that write, spread over the mesh, and which of them owns each tensor.
tensors::Layout writers_of(const placement::Mesh& mesh, const Shards& shards,
                           const std::vector<size_t>& file_of, comm::DType dtype) {
  const size_t num_ranks = mesh.ranks.size(), count = std::min(num_ranks, shards.size());
  tensors::Layout layout;
  layout.role = "files";
  layout.mesh.tp = static_cast<int>(count);
  layout.dtype = dtype;
  for (size_t writer = 0; writer < count; ++writer)
    layout.mesh.ranks.push_back(mesh.ranks[writer * num_ranks / count]);
  for (const size_t file : file_of) layout.splits.push_back({.owner = static_cast<int>(file % count)});
  return layout;
}

comm::DType dtype_on_disk(at::ScalarType dtype) {
  if (dtype == at::kBFloat16) return comm::DType::bf16;
  TRIREME_CHECK(dtype == at::kFloat, "many ranks save fp32 or bf16, not {}", c10::toString(dtype));
  return comm::DType::f32;
}

}  // namespace

void save_values(comm::Communicator& world, const std::string& folder, const models::DecoderShape& shape,
                 const HeldValues& values, at::ScalarType dtype, const SaveOptions& options) {
  const auto tensors = models::tensor_specs(shape);
  const Shards shards(shape, dtype, options.max_shard_bytes);
  std::vector<size_t> file_of;
  for (size_t file = 0; file < shards.size(); ++file)
    file_of.resize(file_of.size() + shards.tensors(file).size(), file);

  tensors::Layout from;
  from.role = world.name();
  from.mesh = values.mesh;
  from.blocks_of_stages = models::blocks_of_stages(shape, values.mesh.pp);
  from.splits = models::tensor_splits(shape);
  from.dtype = values.dtype;
  from.zero = values.zero;
  const tensors::Layout to = writers_of(values.mesh, shards, file_of, dtype_on_disk(dtype));
  tensors::Reshard reshard{tensors, from, to,
                           options.node_of.empty() ? std::vector<int>(world.size()) : options.node_of};
  reshard.options.staging_bytes = options.staging_bytes;
  reshard.options.parcel_bytes = std::min(kMostParcelBytes, options.staging_bytes / 8);
  reshard.options.to_memory = false;
  tensors::Resharder resharder(world, reshard);

  Outcome outcome;
  Files files(folder, shards, to.dtype, outcome);
  const tensors::ShardMap map(tensors, to);
  outcome.attempt([&] {
    const auto writer = map.find(world.rank());
    if (!writer) return;
    make_folder(folder);
    files.open(map, writer->t, file_of);
  });
  resharder.run(BlockMemory{values.blocks, values.dtype}, files);
  outcome.agree(world, folder);
  outcome.attempt([&] {
    files.finish();
    if (world.rank() == to.mesh.ranks[0]) shards.write_index(folder);
  });
  outcome.agree(world, folder);
}

void save(comm::Communicator& world, const std::string& folder, const models::DecoderShape& shape,
          const HeldValues& values, at::ScalarType dtype, const SaveOptions& options) {
  save_values(world, folder, shape, values, dtype, options);
  Outcome outcome;
  outcome.attempt([&] {
    if (world.rank() == values.mesh.ranks[0]) save_configurations(folder, shape, dtype, options);
  });
  outcome.agree(world, folder);
}

}  // namespace trireme::weights
