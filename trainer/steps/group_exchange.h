// Groups on their way between roles.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include "runtime/session/session.h"
#include "trainer/steps/group.h"

namespace trireme::steps {

inline constexpr int64_t kOneRound = std::numeric_limits<int64_t>::max();

/// From the replicas of one role, whose ranks all have them, to those of another, each `round_size` ids
/// (prompts that are learned from together) balanced by cost; in ascending id. `groups` is looked at on the
/// ranks of `from` alone. Collective over: world; where rollout is apart, and both roles are on one side of it
/// and training, that side alone, and nothing happens on the other.
std::vector<Group> send_groups(session::Session& session, placement::Role to, std::vector<Group> groups,
                               placement::Role from, int64_t round_size = kOneRound);

/// The same from whichever training ranks have them, each group on one. Collective over: training.
std::vector<Group> share_out(session::Session& session, placement::Role to, std::vector<Group> groups,
                             int64_t round_size);

/// A few numbers of each group, by its id.
using GroupNumbers = std::map<int64_t, std::vector<double>>;
/// What each replica of a role knows, put together for all ranks of another, and others. `mine` is looked at on
/// the ranks of `from` alone, those of a replica having the same. Collective over: as send_groups().
GroupNumbers share_numbers(session::Session& session, placement::Role to, const GroupNumbers& mine,
                           placement::Role from);

}  // namespace trireme::steps
