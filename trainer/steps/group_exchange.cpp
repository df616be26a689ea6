#include "trainer/steps/group_exchange.h"

#include <algorithm>
#include <cstring>

#include "runtime/tensors/sequence_exchange.h"

namespace trireme::steps {

using placement::Role;

namespace {

std::vector<Group> exchange(comm::Communicator& ranks, const std::vector<std::vector<int>>& replicas,
                            std::vector<Group> groups, int64_t round_size) {
  std::vector<tensors::Record> records;
  for (const Group& group : groups) records.push_back({group.id, group.cost(), pack(group), group.id / round_size});
  groups.clear();
  for (const tensors::Record& record : tensors::exchange(ranks, std::move(records), replicas))
    groups.push_back(unpack(record.bytes));
  return groups;
}

// A role's replicas by their places among the training ranks.
std::vector<std::vector<int>> replicas_in_training(const placement::RoleRanks& roles, Role role) {
  const std::vector<int> ranks = roles.training();
  std::vector<std::vector<int>> replicas = roles.mesh(role).replicas();
  for (auto& replica : replicas)
    for (int& rank : replica)
      rank = static_cast<int>(std::lower_bound(ranks.begin(), ranks.end(), rank) - ranks.begin());
  return replicas;
}

}  // namespace

std::vector<Group> send_groups(session::Session& session, Role to, std::vector<Group> groups, Role from,
                               int64_t round_size) {
  const placement::RoleRanks& roles = session.roles();
  if (!session.has(from) || !session.speaks_for_replica(from)) groups.clear();
  if (!roles.rollout_is_apart() || from == Role::rollout || to == Role::rollout)
    return exchange(session.world(), roles.mesh(to).replicas(), std::move(groups), round_size);
  const std::vector<int> ranks = roles.training();
  if (!std::binary_search(ranks.begin(), ranks.end(), session.rank())) return {};  // rollout may be busy
  return share_out(session, to, std::move(groups), round_size);
}

std::vector<Group> share_out(session::Session& session, Role to, std::vector<Group> groups, int64_t round_size) {
  return exchange(session.training().host(), replicas_in_training(session.roles(), to), std::move(groups),
                  round_size);
}

GroupNumbers share_numbers(session::Session& session, const GroupNumbers& mine, Role from) {
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
  for (const std::string& part : session.world().all_gather_strings(bytes))
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
