// Groups and examples laid end to end for one forward pass. A group's prompt is computed once: its
// responses' rows see the prompt's rows through their segment's spans.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trainer/data/masked_tokens.h"
#include "trainer/models/decoder.h"
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

/// How many rows a forward pass has. Where several ranks share out the rows of a pass (context parallelism)
/// it has room for those of all, and its rows are in the order of the ranks (models::deal_rows()).
struct PassSize {
  int64_t rows_per_rank = 0;
  int ranks = 1;

  PassSize(int64_t rows, int num_ranks = 1) : rows_per_rank(rows), ranks(num_ranks) {}
  /// As `decoder`'s ranks take them.
  PassSize(int64_t rows, const models::Decoder& decoder)
      : PassSize(rows, decoder.context_parallel().size()) {}
  /// Room for whatever belongs together.
  PassSize unlimited() const;
  int64_t rows() const;
};

/// Cuts groups into micro-batches of at most `size` rows, in order. A group that does not fit is cut
/// between its samples (each part with the prompt); one sample longer than that makes a micro-batch alone.
/// Borrows the groups' samples. Samples without tokens are left out.
std::vector<MicroBatch> pack_groups(std::span<Group> groups, const PassSize& size);
/// The same where a group's samples must be together: one that does not fit makes a micro-batch alone.
std::vector<MicroBatch> pack_whole_groups(std::span<Group> groups, const PassSize& size);

/// A supervised example.
struct Example {
  data::MaskedTokens tokens;
  double token_weight = 1.0;  // of each learned token in the loss
};
/// The same without samples: pairs stand in order of examples and of their learned tokens, and examples see
/// nothing of each other.
std::vector<MicroBatch> pack_examples(std::span<const Example> examples, const PassSize& size);

/// Whole sequences that begin alike, each judged at one of its rows.
struct JudgedSequences {
  std::vector<std::vector<int32_t>> tokens;  // none is empty
  std::vector<int64_t> rows;                 // of each, the place that is judged
};
/// Passes of at most `size` rows over sequences that are read to their ends, what those of one element have in
/// common computed once: a pair's row is the judged one, in order of elements and their sequences. A sequence
/// that is longer than a pass makes one alone.
std::vector<MicroBatch> pack_judged(std::span<const JudgedSequences> judged, const PassSize& size);

}  // namespace trireme::steps
