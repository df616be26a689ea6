#include "runtime/comm/mpi_collectives.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <numeric>

#include "runtime/comm/ordered_reduce.h"

namespace trireme::comm::mpi {
namespace {

void copy_bytes(void* to, const void* from, size_t bytes) {
  if (bytes && to != from) std::memmove(to, from, bytes);
}

// What the opening round brought: every rank's header and a few bytes.
class Opening {
 public:
  Opening(const MpiGroup& group, size_t payload_bytes)
      : rank_(group.rank),
        size_(group.size),
        block_bytes_(sizeof(CallHeader) + (payload_bytes + 7) / 8 * 8),
        capacity_(size_ * sizeof(CallHeader) + group.limits.opening_bytes + 8 * size_),
        blocks_(std::make_unique_for_overwrite<std::byte[]>(size_ * block_bytes_ + capacity_)) {}

  size_t block_bytes() const { return block_bytes_; }
  /// The most that a rank can send in one message of an opening, whatever it called.
  size_t capacity() const { return capacity_; }
  /// Slot i holds the block of rank (own + i) mod size.
  std::byte* slot(int i) { return blocks_.get() + i * block_bytes_; }
  std::byte* payload(int rank) { return slot((rank - rank_ + size_) % size_) + sizeof(CallHeader); }
  CallHeader header(int i) {
    CallHeader header;
    std::memcpy(&header, slot(i), sizeof header);
    return header;
  }

 private:
  int rank_, size_;
  size_t block_bytes_, capacity_;
  std::unique_ptr<std::byte[]> blocks_;
};

// Starts every collective: each rank's header and payload go to all (Bruck's all-gather, log2(size)
// rounds), so that a mismatch is seen by all before any large transfer begins.
Task open(const MpiGroup& group, int tag, CallHeader header, const void* payload, size_t bytes,
          Opening& all) {
  std::memcpy(all.slot(0), &header, sizeof header);
  copy_bytes(all.slot(0) + sizeof header, payload, bytes);
  for (int known = 1; known < group.size; known *= 2) {
    const int count = std::min(known, group.size - known);
    const int to = (group.rank - known + group.size) % group.size;
    const int from = (group.rank + known) % group.size;
    MpiRequests sends, receive;
    receive.receive_up_to(all.slot(known), all.capacity(), from, tag, group.comm);
    sends.send(all.slot(0), count * all.block_bytes(), to, tag, group.comm);
    co_await group.thread.finished(receive);
    if (receive.received_bytes() >= sizeof header) {
      const std::array<CallHeader, 2> pair{header, all.header(known)};
      if (!(pair[0] == pair[1]))
        throw Error(
            ErrorCode::internal,
            fmt::format("ranks disagree on the next collective: rank {} called {}, rank {} called {}{}",
                        group.rank, pair[0].text(), from, pair[1].text(),
                        pair[0].text() == pair[1].text() ? " with other counts" : ""),
            "communicator " + group.name);
    }
    TRIREME_CHECK(receive.received_bytes() == count * all.block_bytes(),
                  "{}: rank {} sent {} bytes in the opening of {} where {} were expected", group.name, from,
                  receive.received_bytes(), header.text(), count * all.block_bytes());
    co_await group.thread.finished(sends);
  }
}

std::byte* bytes_of(ConstBufferView view) {
  return static_cast<std::byte*>(const_cast<void*>(view.data));
}

bool fits_opening(const MpiGroup& group, int64_t bytes) {
  return bytes <= group.limits.opening_bytes / group.size;
}

// Elements of a chunk that each rank reduces: as many as leave the parts of all ranks, which are held at
// once, within `held_bytes`; never more than a message holds.
int64_t part_elements(const MpiGroup& group, DType dtype, int64_t held_bytes) {
  const int64_t least = std::min<int64_t>(group.limits.message_bytes, 32 << 10);
  const int64_t bytes = std::clamp(held_bytes / group.size, least, group.limits.message_bytes);
  return std::max<int64_t>(1, bytes / static_cast<int64_t>(size_of(dtype)));
}

// One chunk of a reduction: rank r's share of it comes from all and is reduced there.
struct Chunk {
  MpiRequests scatter, gather;
  std::vector<std::byte> received;  // the other ranks' versions of this rank's share, in rank order

  /// Sends share d (share(d): its view in this rank's data) to rank d, and receives this rank's from all.
  template <typename Share>
  void post_scatter(const MpiGroup& group, int tag, const Share& share) {
    const size_t bytes = share(group.rank).bytes();
    received.resize(bytes * (group.size - 1));
    for (int k = 1; k < group.size; ++k) {
      const int from = (group.rank - k + group.size) % group.size;
      if (bytes) scatter.receive(slot(from, group.rank, bytes), bytes, from, tag, group.comm);
    }
    for (int k = 1; k < group.size; ++k) {
      const int to = (group.rank + k) % group.size;
      const ConstBufferView view = share(to);
      if (view.count) scatter.send(view.data, view.bytes(), to, tag, group.comm);
    }
  }
  void reduce(const MpiGroup& group, ConstBufferView own, BufferView out, ReduceOp op) {
    std::vector<const void*> parts(group.size);
    for (int r = 0; r < group.size; ++r)
      parts[r] = r == group.rank ? own.data : slot(r, group.rank, own.bytes());
    reduce_in_order(parts, out.data, out.count, out.dtype, op);
  }
  std::byte* slot(int from, int own, size_t bytes) { return received.data() + (from - (from > own)) * bytes; }
};

}  // namespace

Task barrier(const MpiGroup& group, int tag) {
  Opening all(group, 0);
  co_await open(group, tag, CallHeader{.kind = Collective::barrier}, nullptr, 0, all);
}

Task broadcast(const MpiGroup& group, int tag, CallHeader header, BufferView data) {
  const bool small = fits_opening(group, static_cast<int64_t>(data.bytes()));
  Opening all(group, small ? data.bytes() : 0);
  co_await open(group, tag, header, data.data, small ? data.bytes() : 0, all);
  if (small) {
    copy_bytes(data.data, all.payload(header.root), data.bytes());
    co_return;
  }
  // A binomial tree, each piece passed on as soon as it is there.
  const int n = group.size, place = (group.rank - header.root + n) % n;
  int parent = -1, reach = 1;
  for (; reach < n; reach *= 2)
    if (place & reach) {
      parent = (place - reach + header.root) % n;
      break;
    }
  std::vector<int> children;
  for (int step = reach / 2; step >= 1; step /= 2)
    if (place + step < n) children.push_back((place + step + header.root) % n);

  const int64_t limit = group.limits.message_bytes, total = static_cast<int64_t>(data.bytes());
  const int64_t pieces = (total + limit - 1) / limit;
  const auto piece = [&](int64_t i) { return bytes_of(data) + i * limit; };
  const auto piece_bytes = [&](int64_t i) { return static_cast<size_t>(std::min(limit, total - i * limit)); };
  std::array<MpiRequests, kAhead + 1> receives, sends;
  for (int64_t i = 0; i < pieces + 2 * kAhead; ++i) {
    if (i < pieces && parent >= 0)
      receives[i % receives.size()].receive(piece(i), piece_bytes(i), parent, tag, group.comm);
    const int64_t here = i - kAhead, sent = i - 2 * kAhead;
    if (here >= 0 && here < pieces) {
      MpiRequests& arriving = receives[here % receives.size()];
      co_await group.thread.finished(arriving);
      for (const int child : children)
        sends[here % sends.size()].send(piece(here), piece_bytes(here), child, tag, group.comm);
    }
    if (sent >= 0) {
      MpiRequests& leaving = sends[sent % sends.size()];
      co_await group.thread.finished(leaving);
    }
  }
}

Task all_reduce(const MpiGroup& group, int tag, CallHeader header, BufferView data) {
  const int n = group.size;
  const bool small = fits_opening(group, static_cast<int64_t>(data.bytes()));
  Opening all(group, small ? data.bytes() : 0);
  co_await open(group, tag, header, data.data, small ? data.bytes() : 0, all);
  if (small) {
    std::vector<const void*> parts(n);
    for (int r = 0; r < n; ++r) parts[r] = all.payload(r);
    reduce_in_order(parts, data.data, data.count, data.dtype, header.op);
    co_return;
  }
  // Chunk by chunk: each rank reduces its share of the chunk and sends it to all.
  const int64_t chunk_count = part_elements(group, data.dtype, group.limits.message_bytes) * n;
  const int64_t chunks = (data.count + chunk_count - 1) / chunk_count;
  const auto share_of = [&](int64_t c, int r) {
    const int64_t begin = c * chunk_count, count = std::min(chunk_count, data.count - begin);
    const int64_t from = count * r / n, to = count * (r + 1) / n;
    return data.slice(begin + from, to - from);
  };
  std::array<Chunk, 2 * kAhead + 1> window;
  for (int64_t i = 0; i < chunks + 2 * kAhead; ++i) {
    if (i < chunks) window[i % window.size()].post_scatter(group, tag, [&](int r) { return share_of(i, r); });
    const int64_t here = i - kAhead, sent = i - 2 * kAhead;
    if (here >= 0 && here < chunks) {
      Chunk& chunk = window[here % window.size()];
      co_await group.thread.finished(chunk.scatter);
      const BufferView own = share_of(here, group.rank);
      chunk.reduce(group, own, own, header.op);
      for (int k = 1; k < n; ++k) {
        const int to = (group.rank + k) % n, from = (group.rank - k + n) % n;
        const BufferView theirs = share_of(here, from);
        if (theirs.count) chunk.gather.receive(theirs.data, theirs.bytes(), from, tag, group.comm);
        if (own.count) chunk.gather.send(own.data, own.bytes(), to, tag, group.comm);
      }
    }
    if (sent >= 0) {
      Chunk& chunk = window[sent % window.size()];
      co_await group.thread.finished(chunk.gather);
    }
  }
}

Task all_gather_v(const MpiGroup& group, int tag, CallHeader header, ConstBufferView in, BufferView out,
                  std::vector<int64_t> counts) {
  const auto width = static_cast<int64_t>(size_of(in.dtype));
  const int64_t widest = *std::max_element(counts.begin(), counts.end()) * width;
  const bool small = fits_opening(group, widest);
  Opening all(group, small ? static_cast<size_t>(widest) : 0);
  co_await open(group, tag, header, in.data, small ? in.bytes() : 0, all);
  std::vector<std::byte*> place(group.size);
  std::byte* end = bytes_of(out);
  for (int r = 0; r < group.size; ++r) {
    place[r] = end;
    end += counts[r] * width;
  }
  copy_bytes(place[group.rank], in.data, in.bytes());
  std::vector<Transfer> sends, receives;
  for (int k = 1; k < group.size; ++k) {
    const int to = (group.rank + k) % group.size, from = (group.rank - k + group.size) % group.size;
    if (small) {
      copy_bytes(place[from], all.payload(from), counts[from] * width);
    } else {
      sends.push_back({to, tag, place[group.rank], counts[group.rank] * width});
      receives.push_back({from, tag, place[from], counts[from] * width});
    }
  }
  co_await move(group, group.comm, Ending::agreed, std::move(sends), std::move(receives));
}

Task reduce_scatter_v(const MpiGroup& group, int tag, CallHeader header, ConstBufferView in, BufferView out,
                      std::vector<int64_t> counts) {
  std::vector<int64_t> place(group.size);
  std::exclusive_scan(counts.begin(), counts.end(), place.begin(), int64_t{0});
  const bool small = fits_opening(group, static_cast<int64_t>(in.bytes()));
  Opening all(group, small ? in.bytes() : 0);
  co_await open(group, tag, header, in.data, small ? in.bytes() : 0, all);
  if (small) {
    std::vector<const void*> parts(group.size);
    const auto begin = static_cast<size_t>(place[group.rank]) * size_of(in.dtype);
    for (int r = 0; r < group.size; ++r) parts[r] = all.payload(r) + begin;
    reduce_in_order(parts, out.data, out.count, out.dtype, header.op);
    co_return;
  }
  const int64_t chunk_count = part_elements(group, in.dtype, 4 * group.limits.message_bytes);
  const int64_t chunks = (*std::max_element(counts.begin(), counts.end()) + chunk_count - 1) / chunk_count;
  const auto share_of = [&](int64_t c, int r) {
    const int64_t begin = std::min(c * chunk_count, counts[r]);
    return in.slice(place[r] + begin, std::min(chunk_count, counts[r] - begin));
  };
  std::array<Chunk, kAhead + 1> window;
  for (int64_t i = 0; i < chunks + kAhead; ++i) {
    if (i < chunks) window[i % window.size()].post_scatter(group, tag, [&](int r) { return share_of(i, r); });
    const int64_t here = i - kAhead;
    if (here >= 0) {
      Chunk& chunk = window[here % window.size()];
      co_await group.thread.finished(chunk.scatter);
      const ConstBufferView own = share_of(here, group.rank);
      if (own.count) chunk.reduce(group, own, out.slice(here * chunk_count, own.count), header.op);
    }
  }
}

Task all_to_all_v(const MpiGroup& group, int tag, CallHeader header, ConstBufferView in,
                  std::vector<int64_t> send_counts, BufferView out, std::vector<int64_t> recv_counts) {
  // Where it is cheap, what is sent is compared with what is expected before anything moves.
  const auto width = static_cast<int64_t>(size_of(in.dtype));
  const int64_t row_bytes = group.size * static_cast<int64_t>(sizeof(int64_t));
  const bool compare = fits_opening(group, row_bytes);
  Opening all(group, compare ? static_cast<size_t>(row_bytes) : 0);
  co_await open(group, tag, header, send_counts.data(), compare ? static_cast<size_t>(row_bytes) : 0, all);
  for (int r = 0; compare && r < group.size; ++r) {
    int64_t count = 0;
    std::memcpy(&count, all.payload(r) + group.rank * sizeof count, sizeof count);
    TRIREME_CHECK(count == recv_counts[r],
                  "{}: all_to_all_v: rank {} sends {} elements to rank {}, which expects {}", group.name, r,
                  count, group.rank, recv_counts[r]);
  }
  std::vector<Transfer> sends(group.size), receives(group.size);
  std::byte *from = bytes_of(in), *to = bytes_of(out);
  for (int r = 0; r < group.size; ++r) {
    sends[r] = {r, tag, from, send_counts[r] * width};
    receives[r] = {r, tag, to, recv_counts[r] * width};
    from += sends[r].bytes;
    to += receives[r].bytes;
  }
  copy_bytes(receives[group.rank].data, sends[group.rank].data, static_cast<size_t>(sends[group.rank].bytes));
  sends[group.rank].bytes = receives[group.rank].bytes = 0;
  // Everybody starts at its right neighbour, so that no rank is everybody's first.
  std::rotate(sends.begin(), sends.begin() + group.rank, sends.end());
  std::rotate(receives.begin(), receives.begin() + group.rank, receives.end());
  co_await move(group, group.comm, Ending::agreed, std::move(sends), std::move(receives));
}

Task send_recv(const MpiGroup& group, std::vector<OwnMessage> own, std::vector<Transfer> sends,
               std::vector<Transfer> receives) {
  for (const OwnMessage& message : own) copy_bytes(message.to.data, message.from.data, message.to.bytes());
  co_await move(group, group.messages, Ending::marked, std::move(sends), std::move(receives));
}

}  // namespace trireme::comm::mpi
