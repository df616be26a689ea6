#include "trainer/steps/group_stream.h"

#include <algorithm>
#include <iterator>

#include "runtime/base/error.h"
#include "trainer/steps/group_exchange.h"

namespace trireme::steps {

using placement::Role;

namespace {

// Who takes what the k-th replica of rollout sends, and hands it on to those that learn from it.
int receiver(const std::vector<int>& training, size_t replica) {
  return training[replica % training.size()];
}

comm::BufferView bytes_of(std::string& text) {
  return {text.data(), static_cast<int64_t>(text.size()), comm::DType::u8};
}

}  // namespace

GroupStream::GroupStream(session::Session& session, int64_t batch_size, int64_t part_size)
    : session_(session), batch_size_(batch_size), part_size_(part_size) {
  TRIREME_CHECK(session.roles().rollout_is_apart(), "rollout shares ranks with training");
}

// The size goes ahead, so that the receiver can make room.
void GroupStream::send(std::span<const Group> groups) {
  Message& message = sent_.emplace_back();
  for (const Group& group : groups) message.bytes += pack(group);
  message.size = static_cast<int64_t>(message.bytes.size());
  const auto replica = static_cast<size_t>(session_.place_in(Role::rollout).d);
  const int to = receiver(session_.roles().training(), replica);
  const comm::Send size{to, {&message.size, 1, comm::DType::i64}}, bytes{to, bytes_of(message.bytes)};
  message.under_way.push_back(session_.world().send_recv_async({&size, 1}, {}));
  if (message.size > 0) message.under_way.push_back(session_.world().send_recv_async({&bytes, 1}, {}));
}

void GroupStream::finish() {
  for (Message& message : sent_)
    for (comm::WorkHandle& work : message.under_way) work->wait();
  sent_.clear();
}

std::vector<Group> GroupStream::receive(Role to) {
  const std::vector<int> training = session_.roles().training();
  const auto replicas = session_.roles().mesh(Role::rollout).replicas();
  std::vector<Group> groups;
  for (size_t k = 0; k < replicas.size(); ++k) {
    if (receiver(training, k) != session_.rank()) continue;
    const int from = replicas[k].front();
    int64_t size = 0;
    const comm::Receive first{from, {&size, 1, comm::DType::i64}};
    session_.world().send_recv({}, {&first, 1});
    if (size == 0) continue;
    std::string bytes(static_cast<size_t>(size), '\0');
    const comm::Receive second{from, bytes_of(bytes)};
    session_.world().send_recv({}, {&second, 1});
    std::ranges::move(unpack_all(bytes), std::back_inserter(groups));
  }
  return share_out(session_, to, std::move(groups), part_size_);
}

}  // namespace trireme::steps
