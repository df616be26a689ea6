#include "runtime/comm/mpi_communicator.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "runtime/base/error.h"

namespace trireme::comm {
namespace {

void open_group(MpiGroup& group, const std::vector<int>& world_ranks, int& num_tags) {
  MPI_Group world, members;
  TRIREME_MPI(MPI_Comm_group, MPI_COMM_WORLD, &world);
  TRIREME_MPI(MPI_Group_incl, world, static_cast<int>(world_ranks.size()), world_ranks.data(), &members);
  TRIREME_MPI(MPI_Comm_create_group, MPI_COMM_WORLD, members, 0, &group.comm);
  TRIREME_MPI(MPI_Group_free, &members);
  TRIREME_MPI(MPI_Group_free, &world);
  TRIREME_MPI(MPI_Comm_set_errhandler, group.comm, MPI_ERRORS_RETURN);
  TRIREME_MPI(MPI_Comm_dup, group.comm, &group.messages);  // takes the error handler along
  TRIREME_MPI(MPI_Comm_rank, group.comm, &group.rank);
  int* upper_bound = nullptr;
  int found = 0;
  TRIREME_MPI(MPI_Comm_get_attr, MPI_COMM_WORLD, MPI_TAG_UB, &upper_bound, &found);
  num_tags = std::min(1 << 20, found ? *upper_bound : 32767);
}

}  // namespace

MpiCommunicator::MpiCommunicator(MpiThread& thread, const std::string& name,
                                 const std::vector<int>& world_ranks, MpiLimits limits)
    : group_{.thread = thread, .name = name, .limits = limits, .size = static_cast<int>(world_ranks.size())},
      sent_(world_ranks.size()),
      received_(world_ranks.size()) {
  TRIREME_CHECK(std::binary_search(world_ranks.begin(), world_ranks.end(), thread.world_rank()),
                "rank {} is not in group {}", thread.world_rank(), name);
  TRIREME_CHECK(world_ranks.back() < thread.world_size(), "group {} holds rank {} of {}", name,
                world_ranks.back(), thread.world_size());
  thread.call([&] { open_group(group_, world_ranks, num_tags_); });
}

// Operations that overlap must not share a tag; their number far exceeds what is ever under way.
int MpiCommunicator::next_tag() {
  return static_cast<int>(operations_++ % num_tags_);
}

void MpiCommunicator::barrier() {
  const int tag = next_tag();
  group_.thread.start([=, this] { return mpi::barrier(group_, tag); })->wait();
}

WorkHandle MpiCommunicator::broadcast_async(BufferView data, int root) {
  const CallHeader header = check_broadcast(*this, data, root);
  const int tag = next_tag();
  return group_.thread.start([=, this] { return mpi::broadcast(group_, tag, header, data); });
}

WorkHandle MpiCommunicator::all_reduce_async(BufferView data, ReduceOp op) {
  const CallHeader header = check_all_reduce(*this, data, op);
  const int tag = next_tag();
  return group_.thread.start([=, this] { return mpi::all_reduce(group_, tag, header, data); });
}

WorkHandle MpiCommunicator::all_gather_async(ConstBufferView in, BufferView out) {
  const CallHeader header = check_all_gather(*this, in, out);
  const int tag = next_tag();
  const std::vector<int64_t> counts(size(), in.count);
  return group_.thread.start([=, this] { return mpi::all_gather_v(group_, tag, header, in, out, counts); });
}

WorkHandle MpiCommunicator::all_gather_v_async(ConstBufferView in, BufferView out,
                                               std::span<const int64_t> counts) {
  const CallHeader header = check_all_gather_v(*this, in, out, counts);
  const int tag = next_tag();
  const std::vector<int64_t> all(counts.begin(), counts.end());
  return group_.thread.start([=, this] { return mpi::all_gather_v(group_, tag, header, in, out, all); });
}

WorkHandle MpiCommunicator::reduce_scatter_async(ConstBufferView in, BufferView out, ReduceOp op) {
  const CallHeader header = check_reduce_scatter(*this, in, out, op);
  const int tag = next_tag();
  const std::vector<int64_t> counts(size(), out.count);
  return group_.thread.start(
      [=, this] { return mpi::reduce_scatter_v(group_, tag, header, in, out, counts); });
}

WorkHandle MpiCommunicator::reduce_scatter_v_async(ConstBufferView in, BufferView out,
                                                   std::span<const int64_t> counts, ReduceOp op) {
  const CallHeader header = check_reduce_scatter_v(*this, in, out, counts, op);
  const int tag = next_tag();
  const std::vector<int64_t> all(counts.begin(), counts.end());
  return group_.thread.start([=, this] { return mpi::reduce_scatter_v(group_, tag, header, in, out, all); });
}

WorkHandle MpiCommunicator::all_to_all_v_async(ConstBufferView in, std::span<const int64_t> send_counts,
                                               BufferView out, std::span<const int64_t> recv_counts) {
  const CallHeader header = check_all_to_all_v(*this, in, send_counts, out, recv_counts);
  const int tag = next_tag();
  const std::vector<int64_t> sent(send_counts.begin(), send_counts.end());
  const std::vector<int64_t> received(recv_counts.begin(), recv_counts.end());
  return group_.thread.start(
      [=, this] { return mpi::all_to_all_v(group_, tag, header, in, sent, out, received); });
}

// Both sides count the messages of a pair, so each has a tag of its own.
WorkHandle MpiCommunicator::send_recv_async(std::span<const Send> sends, std::span<const Receive> receives) {
  std::vector<OwnMessage> own = check_send_recv(*this, sends, receives).own;
  std::vector<mpi::Transfer> leaving, arriving;
  const auto tag = [this](int64_t& messages) { return static_cast<int>(messages++ % num_tags_); };
  for (const Send& send : sends)
    if (send.to != rank())
      leaving.push_back({send.to, tag(sent_[send.to]),
                         static_cast<std::byte*>(const_cast<void*>(send.data.data)),
                         static_cast<int64_t>(send.data.bytes())});
  for (const Receive& receive : receives)
    if (receive.from != rank())
      arriving.push_back({receive.from, tag(received_[receive.from]),
                          static_cast<std::byte*>(receive.data.data),
                          static_cast<int64_t>(receive.data.bytes())});
  return group_.thread.start([own = std::move(own), leaving = std::move(leaving),
                              arriving = std::move(arriving),
                              this] { return mpi::send_recv(group_, own, leaving, arriving); });
}

std::vector<int> all_ranks(const MpiThread& thread) {
  std::vector<int> ranks(thread.world_size());
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

std::string mpi_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  TRIREME_MPI(MPI_Get_library_version, text, &length);
  const std::string version(text, static_cast<size_t>(length));
  return version.substr(0, version.find_first_of(",\n"));
}

}  // namespace trireme::comm
