// What one step learns from, between its generation and its step. Batches that wait for theirs
// (rollout.steps_ahead) were made by weights that are gone, so they are part of a run's state.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "runtime/session/session.h"
#include "trainer/steps/group.h"
#include "trainer/steps/step_metrics.h"

namespace trireme::steps {

struct Batch {
  int64_t step = 0;            // that learns from it
  int64_t weights = 0;         // steps that its weights had learned from
  int64_t taken = 0;           // problems that it took
  std::vector<Group> groups;   // on rollout ranks: the replica's
  StepMetrics metrics;         // what this rank saw of its generation
  int64_t staleness() const { return step - weights; }
};

/// Batches in order of their steps: the same on all ranks, but for groups and metrics.
using Batches = std::deque<Batch>;

/// Writes this replica's groups and metrics of each batch to `folder`, which is made; on the ranks that speak
/// for a rollout replica. Local. Throws io.
void save_batches(const std::string& folder, const Batches& batches, const session::Session& session);

/// Groups and metrics of `batches`, whose steps are known, from a folder that any number of replicas wrote:
/// each gets its share. Local; all rollout ranks call it. Throws io, corrupt_data naming the file.
void load_batches(const std::string& folder, Batches& batches, const session::Session& session);

}  // namespace trireme::steps
