// Groups and examples laid end to end for one forward pass. A group's prompt is computed once: its
// responses' rows see the prompt's rows through their segment's spans.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trainer/models/forward_batch.h"
#include "trainer/steps/group.h"

namespace trireme::steps {

/// The response tokens of one sample within a micro-batch: pairs [begin, begin + sample->length()).
struct PackedSample {
  Sample* sample = nullptr;
  int64_t begin = 0;
};

/// Each pair says which row's logits judge which token, in order of samples and of their tokens.
struct MicroBatch {
  models::ForwardBatch batch;
  std::vector<int32_t> rows, tokens;
  std::vector<PackedSample> samples;

  int64_t num_pairs() const { return static_cast<int64_t>(rows.size()); }
};

/// Cuts groups into micro-batches of at most `max_rows` rows, in order. A group that does not fit is cut
/// between its samples (each part with the prompt); one sample longer than that makes a micro-batch alone.
/// Borrows the groups' samples. Samples without tokens are left out.
std::vector<MicroBatch> pack_groups(std::span<Group> groups, int64_t max_rows);

/// A supervised example: the loss is on `response`.
struct Example {
  std::vector<int32_t> prompt, response;
  double token_weight = 1.0;  // of each response token in the loss
};
/// The same without samples: pairs stand in order of examples and of their response tokens.
std::vector<MicroBatch> pack_examples(std::span<const Example> examples, int64_t max_rows);

}  // namespace trireme::steps
