#include "trainer/steps/packing.h"

#include <algorithm>
#include <limits>

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
  explicit Packer(const PassSize& size) : max_rows_(size.rows()), ranks_(size.ranks) {}

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

  void add(const data::MaskedTokens& tokens) {
    const auto rows = static_cast<int64_t>(tokens.ids.size()) - 1;
    if (tokens.num_learned() == 0) return;
    if (result_.empty() || used_ + rows > max_rows_) {
      result_.emplace_back();
      used_ = 0;
    }
    MicroBatch& micro = result_.back();
    const auto inputs = std::span(tokens.ids).first(static_cast<size_t>(rows));
    const int32_t first = add_segment(micro.batch, 0, inputs, nullptr).slot;
    for (size_t i = 1; i < tokens.ids.size(); ++i) {
      if (tokens.mask[i] == 0) continue;
      micro.rows.push_back(first + static_cast<int32_t>(i) - 1);
      micro.tokens.push_back(tokens.ids[i]);
    }
    used_ += rows;
  }

  // The first `common` tokens are those of the sequence before, where there is `same_prefix`.
  void add_judged(std::span<const int32_t> tokens, int32_t common, int32_t row, bool same_prefix) {
    const auto rest = tokens.subspan(static_cast<size_t>(common));
    const auto rows = static_cast<int64_t>(rest.size());
    bool shares = same_prefix && !result_.empty();
    if (result_.empty() || used_ + rows + (shares ? 0 : common) > max_rows_) {
      result_.emplace_back();
      used_ = 0;
      shares = false;
    }
    MicroBatch& micro = result_.back();
    if (!shares && common > 0) {
      prompt_ = add_segment(micro.batch, 0, tokens.first(static_cast<size_t>(common)), nullptr);
      used_ += common;
    }
    const int32_t first = add_segment(micro.batch, common, rest, common > 0 ? &prompt_ : nullptr).slot;
    micro.rows.push_back(row < common ? prompt_.slot + row : first + row - common);
    micro.tokens.push_back(0);  // no token is judged
    used_ += rows;
  }

  std::vector<MicroBatch> take() {
    for (MicroBatch& micro : result_) {
      if (ranks_ == 1) break;
      const std::vector<int32_t> place = models::deal_rows(micro.batch, ranks_);
      for (int32_t& row : micro.rows) row = place[static_cast<size_t>(row)];
    }
    return std::move(result_);
  }

 private:
  const int64_t max_rows_;
  const int ranks_;
  std::vector<MicroBatch> result_;
  models::SlotSpan prompt_;  // of the last sample, in the last micro-batch
  int64_t used_ = 0;         // its rows
};

}  // namespace

PassSize PassSize::unlimited() const {
  return {std::numeric_limits<int64_t>::max(), ranks};
}

int64_t PassSize::rows() const {
  return rows_per_rank > std::numeric_limits<int64_t>::max() / ranks ? std::numeric_limits<int64_t>::max()
                                                                     : rows_per_rank * ranks;
}

std::vector<MicroBatch> pack_groups(std::span<Group> groups, const PassSize& size) {
  Packer packer(size);
  for (Group& group : groups) {
    bool first = true;
    for (Sample& sample : group.samples) {
      packer.add(group.prompt, sample.tokens, !first, &sample);
      if (!sample.tokens.empty()) first = false;
    }
  }
  return packer.take();
}

std::vector<MicroBatch> pack_whole_groups(std::span<Group> groups, const PassSize& size) {
  std::vector<MicroBatch> result;
  while (!groups.empty()) {
    size_t count = 1;
    for (int64_t rows = groups[0].num_rows(); count < groups.size(); ++count)
      if ((rows += groups[count].num_rows()) > size.rows()) break;
    for (MicroBatch& micro : pack_groups(groups.first(count), size.unlimited()))
      result.push_back(std::move(micro));
    groups = groups.subspan(count);
  }
  return result;
}

namespace {

// Tokens that all begin with, short of the last one of the shortest.
int32_t common_prefix(const std::vector<std::vector<int32_t>>& sequences) {
  size_t common = sequences.empty() ? 0 : sequences[0].size();
  for (const auto& tokens : sequences) {
    const auto end = std::mismatch(sequences[0].begin(), sequences[0].end(), tokens.begin(), tokens.end());
    common = std::min({common, static_cast<size_t>(end.first - sequences[0].begin()), tokens.size() - 1});
  }
  return static_cast<int32_t>(common);
}

}  // namespace

std::vector<MicroBatch> pack_judged(std::span<const JudgedSequences> judged, const PassSize& size) {
  Packer packer(size);
  for (const JudgedSequences& each : judged) {
    const int32_t common = each.tokens.size() > 1 ? common_prefix(each.tokens) : 0;
    for (size_t i = 0; i < each.tokens.size(); ++i)
      packer.add_judged(each.tokens[i], common, static_cast<int32_t>(each.rows.at(i)), i > 0);
  }
  return packer.take();
}

std::vector<MicroBatch> pack_examples(std::span<const Example> examples, const PassSize& size) {
  Packer packer(size);
  for (const Example& example : examples) packer.add(example.tokens);
  return packer.take();
}

}  // namespace trireme::steps
