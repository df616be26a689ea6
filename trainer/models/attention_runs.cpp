#include "trainer/models/attention_runs.h"

#include <algorithm>
#include <numeric>

#include <ATen/Parallel.h>

#include "trainer/models/row_blocks.h"
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

std::vector<SegmentView> views_of(const std::vector<Segment>& segments, const KeyRange& keys) {
  std::vector<SegmentView> views;
  views.reserve(segments.size());
  for (const Segment& segment : segments)
    views.push_back({segment.row, segment.length, segment.position, segment.spans.data(),
                     static_cast<int32_t>(segment.spans.size()), keys.begin, keys.end});
  return views;
}

}  // namespace

void run_attention(const AttentionForward& task, const std::vector<Segment>& segments, const KeyRange& keys) {
  const auto views = views_of(segments, keys);
  const int64_t kv_heads = task.shape.kv_heads, threads = at::get_num_threads();
  const int64_t tasks = static_cast<int64_t>(views.size()) * kv_heads;
  // Runs as long as they leave each thread a few tasks.
  const int64_t most =
      keys.is_all() ? (threads == 1 ? tasks : std::max<int64_t>(tasks / (4 * threads), 1)) : 1;
  const auto runs = shared_runs(views, static_cast<int32_t>(most));
  at::parallel_for(0, static_cast<int64_t>(runs.size()) * kv_heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const SegmentRun& run = runs[static_cast<size_t>(i / kv_heads)];
      cpu_kernels().attention_forward(task, &views[static_cast<size_t>(run.first)], run.count, run.shared,
                                      static_cast<int32_t>(i % kv_heads));
    }
  });
}

void run_attention_backward(const AttentionBackward& task, const std::vector<Segment>& segments,
                            const KeyRange& keys) {
  const auto views = views_of(segments, keys);
  const auto groups = independent_groups(views);
  const int64_t kv_heads = task.forward.shape.kv_heads;
  at::parallel_for(0, static_cast<int64_t>(groups.size()) * kv_heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      for (const int32_t s : groups[static_cast<size_t>(i / kv_heads)])
        cpu_kernels().attention_backward(task, views[static_cast<size_t>(s)],
                                         static_cast<int32_t>(i % kv_heads));
  });
}

void run_rotary(const RotaryTask& all) {
  const int64_t bytes = all.element == Element::f32 ? 4 : 2;
  const auto at = [bytes](auto* base, int64_t elements) {
    return static_cast<char*>(const_cast<void*>(static_cast<const void*>(base))) + elements * bytes;
  };
  for_rows(all.rows, all.qkv_stride, [&](int64_t begin, int64_t end) {
    RotaryTask task = all;
    task.rows = end - begin;
    task.qkv = at(all.qkv, begin * all.qkv_stride);
    task.q = at(all.q, begin * all.q_stride);
    task.positions = all.positions + begin;
    if (all.slots) {
      task.slots = all.slots + begin;
    } else {
      task.keys = at(all.keys, begin * all.kv_stride);
      task.values = at(all.values, begin * all.kv_stride);
    }
    cpu_kernels().rotary(task);
  });
}

void run_rotary_backward(const RotaryBackwardTask& all) {
  const int64_t hd = all.shape.head_dim, q_width = all.shape.heads * hd, kv_width = all.shape.kv_heads * hd,
                width = q_width + 2 * kv_width, bytes = all.element == Element::f32 ? 4 : 2;
  for_rows(all.rows, width, [&](int64_t begin, int64_t end) {
    RotaryBackwardTask task = all;
    task.rows = end - begin;
    task.positions = all.positions + begin;
    task.grad_q = all.grad_q + begin * q_width;
    task.grad_keys = all.grad_keys + begin * kv_width;
    task.grad_values = all.grad_values + begin * kv_width;
    task.grad_qkv = static_cast<char*>(all.grad_qkv) + begin * width * bytes;
    cpu_kernels().rotary_backward(task);
  });
}

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
  // Spans by where they begin: one that begins before those so far have ended shares a slot with one of them.
  struct Stretch {
    int32_t begin, end, segment;
  };
  std::vector<Stretch> stretches;
  for (int32_t s = 0; s < count; ++s) {
    const SegmentView& segment = segments[static_cast<size_t>(s)];
    for (int32_t i = 0; i < segment.num_spans; ++i)
      if (segment.spans[i].length > 0)
        stretches.push_back({segment.spans[i].slot, segment.spans[i].slot + segment.spans[i].length, s});
  }
  std::sort(stretches.begin(), stretches.end(),
            [](const Stretch& a, const Stretch& b) { return a.begin < b.begin; });
  for (size_t i = 1, furthest = 0; i < stretches.size(); ++i) {
    if (stretches[i].begin < stretches[furthest].end) {
      const int32_t a = root(stretches[i].segment), b = root(stretches[furthest].segment);
      owner[static_cast<size_t>(std::max(a, b))] = std::min(a, b);
    }
    if (stretches[i].end > stretches[furthest].end) furthest = i;
  }
  std::vector<std::vector<int32_t>> groups(segments.size());
  for (int32_t s = 0; s < count; ++s) groups[static_cast<size_t>(root(s))].push_back(s);
  std::erase_if(groups, [](const auto& group) { return group.empty(); });
  return groups;
}

}  // namespace trireme::models
