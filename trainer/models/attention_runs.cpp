#include "trainer/models/attention_runs.h"

#include <algorithm>
#include <numeric>

#include "trainer/models/slot_span.h"

namespace trireme::models {
namespace {

// How many positions from the first lie in the same slots; spans may be cut differently.
int32_t common_positions(const SegmentView& a, const SegmentView& b) {
  int32_t common = 0;
  for (int32_t i = 0, j = 0, in_a = 0, in_b = 0; i < a.num_spans && j < b.num_spans;) {
    const SlotSpan &left = a.spans[i], &right = b.spans[j];
    const int32_t length = std::min(left.length - in_a, right.length - in_b);
    if (length > 0 && left.slot + in_a != right.slot + in_b) break;
    common += length;
    in_a += length;
    in_b += length;
    if (in_a == left.length) ++i, in_a = 0;
    if (in_b == right.length) ++j, in_b = 0;
  }
  return common;
}

int32_t shared_positions(const SegmentView& a, const SegmentView& b) {
  return std::min({common_positions(a, b), a.position, b.position}) / kKeyBlock * kKeyBlock;
}

}  // namespace

std::vector<SegmentRun> shared_runs(const std::vector<SegmentView>& segments, int32_t most) {
  std::vector<SegmentRun> runs;
  for (int32_t i = 0; i < static_cast<int32_t>(segments.size()); ++i) {
    const SegmentView& segment = segments[static_cast<size_t>(i)];
    if (!runs.empty() && runs.back().count < most) {
      SegmentRun& run = runs.back();
      const int32_t shared = shared_positions(segments[static_cast<size_t>(run.first)], segment);
      if (shared > 0 && (run.count == 1 || shared >= run.shared)) {
        run.shared = run.count == 1 ? shared : run.shared;
        ++run.count;
        continue;
      }
    }
    runs.push_back({i, 1, 0});
  }
  return runs;
}

std::vector<std::vector<int32_t>> independent_groups(const std::vector<SegmentView>& segments) {
  const auto count = static_cast<int32_t>(segments.size());
  std::vector<int32_t> owner(segments.size());  // an earlier segment of the same group, or itself
  std::iota(owner.begin(), owner.end(), 0);
  const auto root = [&](int32_t s) {
    while (owner[static_cast<size_t>(s)] != s) s = owner[static_cast<size_t>(s)];
    return s;
  };
  const auto segment_of = [&](int32_t row) {
    const auto after = std::upper_bound(segments.begin(), segments.end(), row,
                                        [](int32_t r, const SegmentView& s) { return r < s.row; });
    return static_cast<int32_t>(after - segments.begin()) - 1;
  };
  for (int32_t s = 0; s < count; ++s) {
    const SegmentView& segment = segments[static_cast<size_t>(s)];
    for (int32_t i = 0; i < segment.num_spans; ++i) {
      const SlotSpan& span = segment.spans[i];
      if (span.length == 0) continue;
      for (int32_t other = segment_of(span.slot); other <= segment_of(span.slot + span.length - 1); ++other) {
        const int32_t a = root(s), b = root(other);
        owner[static_cast<size_t>(std::max(a, b))] = std::min(a, b);
      }
    }
  }
  std::vector<std::vector<int32_t>> groups(segments.size());
  for (int32_t s = 0; s < count; ++s) groups[static_cast<size_t>(root(s))].push_back(s);
  std::erase_if(groups, [](const auto& group) { return group.empty(); });
  return groups;
}

}  // namespace trireme::models
