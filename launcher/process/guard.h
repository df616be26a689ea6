// The parent of one rank, and what mpirun starts in its place: binds it, keeps its log, reports on it, and
// ends it, with all that it started, when told so or when the supervisor is gone.
#pragma once

namespace trireme::process {

/// Finds the supervisor by the environment (plan::RankEnv) and gets everything else from it.
/// Returns the rank's exit status, 128 + signal if one ended it, and 0 for a rank that stopped after a
/// checkpoint, so that mpirun sees a clean end. Throws what keeps it from starting at all.
int guard_rank();

}  // namespace trireme::process
