#include "runtime/tensors/gpu_staging.h"

#include <vector>

#include "runtime/tensors/moves.h"

namespace trireme::tensors {
namespace {

// What kernels read of the host's: copied once, and again when it has changed.
template <typename T>
class DeviceArray {
 public:
  DeviceArray() = default;
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() {
    if (memory_) gpu_->free(memory_);
  }

  const T* set(const GpuToolkit& gpu, std::vector<T> values) {
    if (memory_ && values == values_) return memory_;
    // Whatever reads the former ones, or copies from them.
    if (memory_) gpu.calls->synchronize(gpu.compute);
    if (memory_ && values.size() > values_.size()) {
      gpu.calls->free(memory_);
      memory_ = nullptr;
    }
    gpu_ = gpu.calls;
    values_ = std::move(values);
    const size_t bytes = values_.size() * sizeof(T);
    if (!memory_) memory_ = static_cast<T*>(gpu_->allocate(bytes));
    gpu_->copy(memory_, values_.data(), bytes, gpu.compute);
    return memory_;
  }

 private:
  comm::GpuCalls* gpu_ = nullptr;
  std::vector<T> values_;
  T* memory_ = nullptr;
};

// Lists never change.
class DeviceList {
 public:
  DeviceList(const GpuToolkit& gpu, MoveList list) : num_chunks_(static_cast<int64_t>(list.chunks.size())) {
    if (num_chunks_ == 0) return;
    moves_ = moves_memory_.set(gpu, std::move(list.moves));
    chunks_ = chunks_memory_.set(gpu, std::move(list.chunks));
  }
  DeviceMoves with(const std::byte* const* from, std::byte* const* to) const {
    return {moves_, chunks_, num_chunks_, from, to};
  }
  bool empty() const { return num_chunks_ == 0; }

 private:
  DeviceArray<Move> moves_memory_;
  DeviceArray<MoveChunk> chunks_memory_;
  const Move* moves_ = nullptr;
  const MoveChunk* chunks_ = nullptr;
  int64_t num_chunks_ = 0;
};

class GpuStaging : public Staging {
 public:
  GpuStaging(const RankPlan& plan, comm::DType wire, const GpuToolkit& gpu) : wire_(wire), gpu_(gpu) {
    TRIREME_CHECK(gpu_.calls && gpu_.kernels, "weights lie on a GPU, and this build has none");
    for (const Round& round : plan.rounds) {
      packs_.push_back(std::make_unique<DeviceList>(gpu_, moves_to_buffer(round.packs, wire)));
      unpacks_.push_back(std::make_unique<DeviceList>(gpu_, moves_from_buffer(round.unpacks, wire)));
    }
    copies_ = std::make_unique<DeviceList>(gpu_, moves_on_the_spot(plan.copies));
  }
  ~GpuStaging() override {
    for (std::byte* buffer : buffers_) gpu_.calls->free(buffer);
  }

  std::byte* allocate(int64_t bytes) override {
    if (bytes == 0) return nullptr;
    return buffers_.emplace_back(static_cast<std::byte*>(gpu_.calls->allocate(static_cast<size_t>(bytes))));
  }

  void pack(size_t round, const BlockMemory& from, std::byte* buffer) override {
    const DeviceList& list = *packs_[round];
    if (list.empty()) return;
    run(list.with(blocks(from_, from), this->buffer(buffer)), from.dtype, wire_);
  }
  void unpack(size_t round, const std::byte* buffer, const BlockMemory& to) override {
    const DeviceList& list = *unpacks_[round];
    if (list.empty()) return;
    run(list.with(this->buffer(buffer), blocks(to_, to)), wire_, to.dtype);
  }
  void copy(const BlockMemory& from, const BlockMemory& to) override {
    if (copies_->empty()) return;
    run(copies_->with(blocks(from_, from), blocks(to_, to)), from.dtype, to.dtype);
  }

 private:
  void run(const DeviceMoves& moves, comm::DType from, comm::DType to) {
    TRIREME_CHECK(has_move_kernel(from, to), "{} cannot be moved to {} on a GPU", comm::to_string(from),
                  comm::to_string(to));
    if (const char* wrong = gpu_.kernels->run(moves, from, to, gpu_.compute))
      fail(ErrorCode::cuda, "weights could not be moved from {} to {}: {}", comm::to_string(from),
           comm::to_string(to), wrong);
  }
  std::byte* const* blocks(DeviceArray<std::byte*>& array, const BlockMemory& memory) {
    return array.set(gpu_, {memory.blocks.begin(), memory.blocks.end()});
  }
  // One of those that allocate() made, as a list of one.
  std::byte* const* buffer(const std::byte* which) {
    std::byte* const* all = buffer_bases_.set(gpu_, buffers_);
    for (size_t i = 0; i < buffers_.size(); ++i)
      if (buffers_[i] == which) return all + i;
    fail(ErrorCode::internal, "a buffer that this staging did not allocate");
  }

  const comm::DType wire_;
  const GpuToolkit gpu_;
  std::vector<std::unique_ptr<DeviceList>> packs_, unpacks_;  // by round
  std::unique_ptr<DeviceList> copies_;
  std::vector<std::byte*> buffers_;
  DeviceArray<std::byte*> from_, to_, buffer_bases_;
};

}  // namespace

std::unique_ptr<Staging> gpu_staging(const RankPlan& plan, comm::DType wire, const GpuToolkit& gpu) {
  return std::make_unique<GpuStaging>(plan, wire, gpu);
}

}  // namespace trireme::tensors
