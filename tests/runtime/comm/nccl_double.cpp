#include "tests/runtime/comm/nccl_double.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/comm/local_communicator.h"

namespace trireme::comm {

struct NcclDouble::Fabric {
  explicit Fabric(int num_ranks) : world(num_ranks, "NCCL double"), devices(num_ranks), joined(num_ranks) {}

  struct Parcel {
    ConstBufferView data;
    bool taken = false;
  };

  LocalWorld world;  // brings the ranks together, compares their calls, moves the data
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> devices;
  std::vector<bool> joined;
  std::string broken;  // why sends and receives end
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<Parcel>>> mail;

  bool all_joined() { return std::find(joined.begin(), joined.end(), false) == joined.end(); }
  bool shares_gpus() { return std::set<std::string>(devices.begin(), devices.end()).size() < devices.size(); }

  void break_down(int rank, const std::string& why) {
    world.communicator(rank).abort(why);
    std::lock_guard lock(mutex);
    if (broken.empty()) broken = why;
    changed.notify_all();
  }

  std::shared_ptr<Parcel> post(int from, int to, ConstBufferView data) {
    std::lock_guard lock(mutex);
    auto parcel = std::make_shared<Parcel>();
    parcel->data = data;
    mail[{from, to}].push_back(parcel);
    changed.notify_all();
    return parcel;
  }
  void await_taken(const Parcel& parcel) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return parcel.taken || !broken.empty(); });
    if (!parcel.taken) fail(ErrorCode::peer_failed, "{}", broken);
  }
  void take(int from, int to, BufferView data) {
    std::unique_lock lock(mutex);
    auto& box = mail[{from, to}];
    changed.wait(lock, [&] { return !box.empty() || !broken.empty(); });
    if (box.empty()) fail(ErrorCode::peer_failed, "{}", broken);
    const auto parcel = box.front();
    box.pop_front();
    TRIREME_CHECK(parcel->data.count == data.count && parcel->data.dtype == data.dtype,
                  "a send of {} meets a receive of {}", parcel->data.count, data.count);
    std::memcpy(data.data, parcel->data.data, data.bytes());
    parcel->taken = true;
    changed.notify_all();
  }

  static std::shared_ptr<Fabric> meet(const NcclId& id, int num_ranks) {
    static std::mutex mutex;
    static std::map<std::string, std::weak_ptr<Fabric>> open;
    std::lock_guard lock(mutex);
    auto& entry = open[std::string(id.begin(), id.end())];
    auto fabric = entry.lock();
    if (!fabric) entry = fabric = std::make_shared<Fabric>(num_ranks);
    return fabric;
  }
};

struct NcclDouble::Comm {
  std::shared_ptr<Fabric> fabric;
  int rank = 0;
  std::atomic<NcclResult> error{NcclResult::success};
  std::atomic<bool> ended{false}, finalized{false};
  std::atomic<int> hesitations{0};  // answers of in_progress before the next success
  std::atomic<int> calls{0};

  Communicator& member() { return fabric->world.communicator(rank); }
  void guarded(const std::function<void()>& work) {
    try {
      work();
    } catch (const Error& e) {
      NcclResult none = NcclResult::success;
      error.compare_exchange_strong(
          none, e.code() == ErrorCode::peer_failed ? NcclResult::remote_error : NcclResult::invalid_usage);
      fabric->break_down(rank, e.what());
    }
  }
};

namespace {

BufferView on_host(BufferView view) {
  view.device = Device::cpu;
  return view;
}
ConstBufferView on_host(ConstBufferView view) {
  view.device = Device::cpu;
  return view;
}

}  // namespace

NcclDouble::NcclDouble(GpuDouble& gpu) : gpu_(gpu) {}

NcclDouble::~NcclDouble() {
  gpu_.synchronize_all();
}

std::string NcclDouble::text(NcclResult result, NcclHandle) {
  switch (result) {
    case NcclResult::invalid_usage:
      return "invalid usage";
    case NcclResult::remote_error:
      return "remote process exited or there was a network error";
    case NcclResult::invalid_argument:
      return "invalid argument";
    default:
      return fmt::format("error {}", static_cast<int>(result));
  }
}

NcclResult NcclDouble::get_unique_id(NcclId* id) {
  static std::atomic<int> number{0};
  id->fill(0);
  const std::string text = fmt::format("double {}", ++number);
  std::copy(text.begin(), text.end(), id->begin());
  return fail_next.exchange(NcclResult::success);
}

NcclResult NcclDouble::init(NcclHandle* handle, int size, const NcclId& id, int rank) {
  const NcclResult forced = fail_next.exchange(NcclResult::success);
  if (forced != NcclResult::success) return forced;
  Comm* comm = comms_.emplace_back(std::make_unique<Comm>()).get();
  *handle = comm;
  comm->fabric = Fabric::meet(id, size);
  comm->rank = rank;
  comm->hesitations = 2;
  std::lock_guard lock(comm->fabric->mutex);
  if (rank < 0 || rank >= size || comm->fabric->joined[rank]) return NcclResult::invalid_argument;
  comm->fabric->joined[rank] = true;
  comm->fabric->devices[rank] = gpu_.device_id(0);
  return NcclResult::in_progress;
}

NcclResult NcclDouble::async_error(NcclHandle handle, NcclResult* state) {
  Comm* comm = static_cast<Comm*>(handle);
  if (comm->ended) {
    ++uses_after_end_;
    return NcclResult::invalid_argument;
  }
  std::lock_guard lock(comm->fabric->mutex);
  if (comm->error != NcclResult::success)
    *state = comm->error;
  else if (!comm->fabric->all_joined())
    *state = comm->fabric->broken.empty() ? NcclResult::in_progress : NcclResult::remote_error;
  else if (comm->fabric->shares_gpus())
    *state = NcclResult::invalid_usage;
  else if (comm->hesitations > 0)
    --comm->hesitations, *state = NcclResult::in_progress;
  else
    *state = NcclResult::success;
  return NcclResult::success;
}

NcclResult NcclDouble::finalize(NcclHandle handle) {
  Comm* comm = static_cast<Comm*>(handle);
  if (comm->ended.load()) return NcclResult::invalid_argument;
  comm->finalized = true;
  comm->hesitations = 1;
  return NcclResult::in_progress;
}

NcclResult NcclDouble::destroy(NcclHandle handle) {
  Comm* comm = static_cast<Comm*>(handle);
  if (comm->ended.exchange(true)) {
    ++uses_after_end_;
    return NcclResult::invalid_argument;
  }
  return comm->finalized ? NcclResult::success : NcclResult::invalid_usage;
}

NcclResult NcclDouble::abort(NcclHandle handle) {
  Comm* comm = static_cast<Comm*>(handle);
  if (comm->ended.exchange(true)) {
    ++uses_after_end_;
    return NcclResult::invalid_argument;
  }
  comm->fabric->break_down(comm->rank, "a communicator was aborted");
  return NcclResult::success;
}

NcclResult NcclDouble::submit(NcclHandle handle, GpuStream stream, std::function<void()> work,
                              std::function<void()> begin, std::function<void()> wait) {
  const NcclResult forced = fail_next.exchange(NcclResult::success);
  if (forced != NcclResult::success) return forced;
  Comm* comm = static_cast<Comm*>(handle);
  if (comm->ended) {
    ++uses_after_end_;
    return NcclResult::invalid_argument;
  }
  {
    std::lock_guard lock(comm->fabric->mutex);
    if (!comm->fabric->all_joined() || comm->finalized) return NcclResult::invalid_usage;
  }
  if (comm->error != NcclResult::success) return comm->error;
  group_.push_back({comm, stream, std::move(begin), std::move(work), std::move(wait)});
  if (group_depth_ > 0) return NcclResult::success;
  return launch(std::exchange(group_, {}));
}

NcclResult NcclDouble::launch(std::vector<Item> items) {
  if (items.empty()) return NcclResult::success;
  Comm* comm = items.front().comm;
  const GpuStream stream = items.front().stream;
  gpu_.enqueue(stream, [this, comm, items = std::move(items)] {
    {
      std::lock_guard lock(ran_mutex_);
      ran_.push_back(comm);
      side_by_side_ = std::max<int>(side_by_side_, ++running_);
    }
    comm->guarded([&] {
      for (const Item& item : items) item.begin();
      for (const Item& item : items) item.work();
      for (const Item& item : items) item.wait();
    });
    --running_;
  });
  if (++comm->calls % 3 != 0) return NcclResult::success;
  comm->hesitations = 2;
  return NcclResult::in_progress;
}

std::vector<NcclHandle> NcclDouble::ran() const {
  std::lock_guard lock(ran_mutex_);
  return ran_;
}

NcclResult NcclDouble::group_start() {
  ++group_depth_;
  return NcclResult::success;
}

NcclResult NcclDouble::group_end() {
  if (group_depth_ == 0) return NcclResult::invalid_usage;
  if (--group_depth_ > 0) return NcclResult::success;
  return launch(std::exchange(group_, {}));
}

NcclResult NcclDouble::broadcast(BufferView data, int root, NcclHandle handle, GpuStream stream) {
  Comm* comm = static_cast<Comm*>(handle);
  return submit(handle, stream, [=] { comm->member().broadcast(on_host(data), root); });
}

NcclResult NcclDouble::all_reduce(BufferView data, ReduceOp op, NcclHandle handle, GpuStream stream) {
  Comm* comm = static_cast<Comm*>(handle);
  return submit(handle, stream, [=] { comm->member().all_reduce(on_host(data), op); });
}

NcclResult NcclDouble::all_gather(ConstBufferView in, BufferView out, NcclHandle handle, GpuStream stream) {
  Comm* comm = static_cast<Comm*>(handle);
  return submit(handle, stream, [=] { comm->member().all_gather(on_host(in), on_host(out)); });
}

NcclResult NcclDouble::reduce_scatter(ConstBufferView in, BufferView out, ReduceOp op, NcclHandle handle,
                                      GpuStream stream) {
  Comm* comm = static_cast<Comm*>(handle);
  return submit(handle, stream, [=] { comm->member().reduce_scatter(on_host(in), on_host(out), op); });
}

NcclResult NcclDouble::reduce(ConstBufferView in, BufferView out, ReduceOp op, int root, NcclHandle handle,
                              GpuStream stream) {
  Comm* comm = static_cast<Comm*>(handle);
  return submit(handle, stream, [=] {
    Communicator& member = comm->member();
    std::vector<int64_t> counts(member.size());
    counts[root] = in.count;
    const BufferView part = comm->rank == root ? on_host(out) : BufferView{nullptr, 0, out.dtype};
    member.reduce_scatter_v(on_host(in), part, counts, op);
  });
}

NcclResult NcclDouble::send(ConstBufferView data, int to, NcclHandle handle, GpuStream stream) {
  Comm* comm = static_cast<Comm*>(handle);
  auto parcel = std::make_shared<std::shared_ptr<Fabric::Parcel>>();
  return submit(
      handle, stream, [] {}, [=] { *parcel = comm->fabric->post(comm->rank, to, data); },
      [=] { comm->fabric->await_taken(**parcel); });
}

NcclResult NcclDouble::receive(BufferView data, int from, NcclHandle handle, GpuStream stream) {
  Comm* comm = static_cast<Comm*>(handle);
  return submit(handle, stream, [=] { comm->fabric->take(from, comm->rank, data); });
}

}  // namespace trireme::comm
