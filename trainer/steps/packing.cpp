#include "trainer/steps/packing.h"

namespace trireme::steps {
namespace {

// Appends one run of rows; returns the slots that later segments may see.
models::SlotSpan add_segment(models::ForwardBatch& batch, int32_t position, std::span<const int32_t> tokens,
                             const models::SlotSpan* prefix) {
  const models::SlotSpan own{static_cast<int32_t>(batch.tokens.size()), static_cast<int32_t>(tokens.size())};
  models::Segment segment{own.slot, own.length, position, {}};
  if (prefix) segment.spans.push_back(*prefix);
  segment.spans.push_back(own);
  batch.segments.push_back(std::move(segment));
  for (int32_t i = 0; i < own.length; ++i) {
    batch.tokens.push_back(tokens[static_cast<size_t>(i)]);
    batch.positions.push_back(position + i);
    batch.slots.push_back(own.slot + i);
  }
  return own;
}

// The response's rows after a prompt that lies at `prompt`; the pairs that judge its tokens.
void add_response(MicroBatch& micro, const models::SlotSpan& prompt, std::span<const int32_t> response) {
  const auto inputs = response.first(response.size() - 1);  // the last token is judged, never read
  int32_t first_row = 0;
  if (!inputs.empty()) first_row = add_segment(micro.batch, prompt.length, inputs, &prompt).slot;
  for (size_t i = 0; i < response.size(); ++i) {
    micro.rows.push_back(i == 0 ? prompt.slot + prompt.length - 1 : first_row + static_cast<int32_t>(i) - 1);
    micro.tokens.push_back(response[i]);
  }
}

// Opens micro-batches as they fill up.
class Packer {
 public:
  explicit Packer(int64_t max_rows) : max_rows_(max_rows) {}

  void add(std::span<const int32_t> prompt, std::span<const int32_t> response, bool same_prompt,
           Sample* sample) {
    if (response.empty()) return;
    const auto response_rows = static_cast<int64_t>(response.size()) - 1;
    const auto prompt_rows = static_cast<int64_t>(prompt.size());
    bool shares = same_prompt && !result_.empty();
    if (result_.empty() || used_ + response_rows + (shares ? 0 : prompt_rows) > max_rows_) {
      result_.emplace_back();
      used_ = 0;
      shares = false;
    }
    MicroBatch& micro = result_.back();
    if (!shares) {
      prompt_ = add_segment(micro.batch, 0, prompt, nullptr);
      used_ += prompt_rows;
    }
    if (sample) micro.samples.push_back({sample, micro.num_pairs()});
    add_response(micro, prompt_, response);
    used_ += response_rows;
  }

  std::vector<MicroBatch> take() { return std::move(result_); }

 private:
  const int64_t max_rows_;
  std::vector<MicroBatch> result_;
  models::SlotSpan prompt_;  // of the last sample, in the last micro-batch
  int64_t used_ = 0;         // its rows
};

}  // namespace

std::vector<MicroBatch> pack_groups(std::span<Group> groups, int64_t max_rows) {
  Packer packer(max_rows);
  for (Group& group : groups) {
    bool first = true;
    for (Sample& sample : group.samples) {
      packer.add(group.prompt, sample.tokens, !first, &sample);
      if (!sample.tokens.empty()) first = false;
    }
  }
  return packer.take();
}

std::vector<MicroBatch> pack_examples(std::span<const Example> examples, int64_t max_rows) {
  Packer packer(max_rows);
  for (const Example& example : examples) packer.add(example.prompt, example.response, false, nullptr);
  return packer.take();
}

}  // namespace trireme::steps
