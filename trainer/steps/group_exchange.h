// Groups on their way between roles.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "runtime/session/session.h"
#include "trainer/steps/group.h"

namespace trireme::steps {

/// From the replicas of one role, whose ranks all have them, to those of another, balanced by cost; in
/// ascending id. `groups` is looked at on the ranks of `from` alone. Collective over: world; where neither
/// role is rollout and rollout is apart, the other ranks alone, and nothing happens on rollout's.
std::vector<Group> send_groups(session::Session& session, placement::Role to, std::vector<Group> groups,
                               placement::Role from);

/// A few numbers of each group, by its id.
using GroupNumbers = std::map<int64_t, std::vector<double>>;
/// What each replica of a role knows, put together for everybody. `mine` is looked at on the ranks of `from`
/// alone, those of a replica having the same. Collective over: world.
GroupNumbers share_numbers(session::Session& session, const GroupNumbers& mine, placement::Role from);

}  // namespace trireme::steps
