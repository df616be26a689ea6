// How long a replica generates: a step of decoding reads the weights once and every live sequence's keys and
// values; sequences end one by one, and what is left at last is a short batch. Torch-free.
#pragma once

#include <vector>

#include "trainer/costs/links.h"
#include "trainer/costs/memory.h"

namespace trireme::costs {

/// Lengths of responses as a beta distribution on [0, limit]; `spread` is its a + b: the smaller, the wider.
class ResponseLengths {
 public:
  ResponseLengths(double mean, double limit, double spread);
  double mean() const { return mean_; }
  double limit() const { return limit_; }
  double second_moment() const { return second_moment_; }
  /// The share that is longer, and of those under way at any time the share that has so many left.
  double longer_than(double tokens) const { return at(longer_, tokens); }
  double left_more_than(double tokens) const { return at(left_, tokens); }
  /// That the longest of `count` exceeds about every second time.
  double longest_of(double count) const;

 private:
  double at(const std::vector<double>& values, double tokens) const;
  double mean_, limit_, second_moment_ = 0;
  std::vector<double> longer_, left_;  // at limit * i / (size - 1)
};

struct GenerationJob {
  double sequences = 0;  // of this replica
  double prompts = 0;    // computed once each
  double prompt_tokens = 0;
  double slots = 0;  // sequences at a time
  int64_t tp = 1;
};

struct GenerationTime {
  double prefill = 0;        // seconds, as the rest
  double decode = 0;         // all steps
  double communication = 0;  // of them, between tp ranks
  double overhead = 0;       // of them, beside products, bytes and messages
  double idle_tail = 0;      // of decode: what the batch lacked, against its fullest
  double steps = 0;
  LinkUse links;
  double total() const { return prefill + decode; }
};

GenerationTime generation_time(const ModelShape& shape, const Target& target, const GenerationJob& job,
                               const ResponseLengths& lengths, const Machine& machine,
                               const Constants& constants);

}  // namespace trireme::costs
