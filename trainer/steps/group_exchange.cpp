#include "trainer/steps/group_exchange.h"

#include <algorithm>
#include <cstring>

#include "runtime/tensors/sequence_exchange.h"

namespace trireme::steps {

using placement::Role;

namespace {

// The ranks that an exchange takes: all, or one side's, since the other may be busy.
struct Circle {
  comm::Communicator* ranks = nullptr;  // null: this rank is none of them
  std::vector<int> members;             // of the world, ascending; empty: all

  int place_of(int rank) const {
    if (members.empty()) return rank;
    return static_cast<int>(std::lower_bound(members.begin(), members.end(), rank) - members.begin());
  }
};

bool within(const std::vector<int>& all, const std::vector<int>& some) {
  return std::includes(all.begin(), all.end(), some.begin(), some.end());
}

Circle circle_of(session::Session& session, Role from, Role to) {
  const placement::RoleRanks& roles = session.roles();
  if (roles.rollout_is_apart())
    for (const bool trains : {true, false}) {
      const std::vector<int> side = trains ? roles.training() : roles.generating();
      if (!within(side, roles.of(from)) || !within(side, roles.of(to))) continue;
      if (!std::binary_search(side.begin(), side.end(), session.rank())) return {nullptr, side};
      return {&(trains ? session.training() : session.generating()).host(), side};
    }
  return {&session.world(), {}};
}

std::vector<Group> exchange(const Circle& circle, std::vector<std::vector<int>> replicas, std::vector<Group> groups,
                            int64_t round_size) {
  for (auto& replica : replicas)
    for (int& rank : replica) rank = circle.place_of(rank);
  std::vector<tensors::Record> records;
  for (const Group& group : groups)
    records.push_back({group.id, group.cost(), pack(group), group.id / round_size});
  groups.clear();
  for (const tensors::Record& record : tensors::exchange(*circle.ranks, std::move(records), replicas))
    groups.push_back(unpack(record.bytes));
  return groups;
}

}  // namespace

std::vector<Group> send_groups(session::Session& session, Role to, std::vector<Group> groups, Role from,
                               int64_t round_size) {
  const Circle circle = circle_of(session, from, to);
  if (!circle.ranks) return {};
  if (!session.has(from) || !session.speaks_for_replica(from)) groups.clear();
  return exchange(circle, session.roles().mesh(to).replicas(), std::move(groups), round_size);
}

std::vector<Group> share_out(session::Session& session, Role to, std::vector<Group> groups, int64_t round_size) {
  return exchange({&session.training().host(), session.roles().training()}, session.roles().mesh(to).replicas(),
                  std::move(groups), round_size);
}

GroupNumbers share_numbers(session::Session& session, Role to, const GroupNumbers& mine, Role from) {
  const Circle circle = circle_of(session, from, to);
  if (!circle.ranks) return {};
  std::string bytes;  // id, count and numbers of each group
  const auto put = [&](const auto& value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  if (session.has(from) && session.speaks_for_replica(from))
    for (const auto& [id, numbers] : mine) {
      put(id);
      put(static_cast<int64_t>(numbers.size()));
      for (const double number : numbers) put(number);
    }
  GroupNumbers all;
  for (const std::string& part : circle.ranks->all_gather_strings(bytes))
    for (const char *at = part.data(), *end = at + part.size(); at < end;) {
      int64_t id = 0, count = 0;
      std::memcpy(&id, at, sizeof id);
      std::memcpy(&count, at + sizeof id, sizeof count);
      at += sizeof id + sizeof count;
      std::vector<double>& numbers = all[id];
      numbers.resize(static_cast<size_t>(count));
      std::memcpy(numbers.data(), at, numbers.size() * sizeof(double));
      at += numbers.size() * sizeof(double);
    }
  return all;
}

}  // namespace trireme::steps
