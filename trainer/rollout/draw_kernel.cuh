// One block a row of logits. Without a filter, the sums of softmax's chunks say in which chunk the draw
// falls, and only that one is read. With one, the least logit that is kept is found by histograms: first of
// the distance from the largest logit, then of the bits of what fell into the decisive interval.
#pragma once

#include "trainer/models/gpu_logits.cuh"
#include "trainer/rollout/draw_kernel.h"

namespace trireme::gpu {

inline constexpr int kDrawThreads = 512;
inline constexpr int kBins = 256;

/// The larger the logit the smaller the number.
__device__ inline uint32_t key_of(float logit) {
  const uint32_t bits = bits_of(logit);
  return bits & 0x80000000u ? bits : ~bits & 0x7fffffffu;
}

struct DrawShared {
  uint32_t counts[kBins];
  uint64_t masses[kBins];
  uint64_t total;
  // Of the decisive bin, and of those before it.
  int32_t bin;
  uint32_t count, count_before;
  uint64_t mass, mass_before;
};

/// Tokens that may be drawn: those with a smaller key than `key`, and the first `ties` of those that have it.
struct Cut {
  uint32_t key, ties;
  uint64_t tie_mass;  // of one
};

class RowDraw {
 public:
  __device__ RowDraw(const rollout::GpuDraw& task, int64_t row, DrawShared& shared)
      : task_(task),
        settings_(task.settings[row]),
        stats_(task.stats[row]),
        row_(row),
        chunks_((task.vocab + kVocabChunk - 1) / kVocabChunk),
        logits_(task.logits + row * task.vocab),
        factor_(task.inverse_temperature[row]),
        shared_(shared) {}

  __device__ void run() {
    const float numbers = stats_.log_sum_exp + stats_.entropy;
    const bool is_number = numbers - numbers == 0.0f;
    const bool has_top_k = settings_.top_k > 0 && settings_.top_k < task_.vocab;
    const bool filtered = has_top_k || settings_.top_p < 1.0 || settings_.min_p > 0.0f;
    if (!is_number || settings_.greedy) {
      for (int d = team(); d < settings_.num_draws; d += teams_of_block())
        write(d, is_number ? stats_.largest : -1);
      return;
    }
    if (!filtered) {
      for (int d = team(); d < settings_.num_draws; d += teams_of_block()) write(d, choose(uniform(d)));
      return;
    }
    const Cut cut = find_cut(has_top_k);
    const uint64_t total = weigh_chunks(cut);
    for (int d = team(); d < settings_.num_draws; d += teams_of_block()) {
      const auto bits = static_cast<uint64_t>(uniform(d) * 0x1p53) << 11;
      write(d, choose(cut, high_product(bits, total)));
    }
  }

 private:
  __device__ double uniform(int draw) const { return task_.uniforms[settings_.first_draw + draw]; }
  __device__ Pack<float, 4> load(int64_t first) const {
    return load_logits(logits_, first, task_.vocab, factor_);
  }

  __device__ void write(int draw, int32_t token) {
    if (lane() != 0) return;
    const float logit = token >= 0 ? logits_[token] * factor_ : 0.0f;
    task_.drawn[settings_.first_draw + draw] = {token, logit - stats_.log_sum_exp, stats_.entropy};
  }

  // ---- without a filter

  __device__ double mass_of(int64_t chunk, double& scale) const {
    scale = 0.0;
    if (chunk >= chunks_) return 0.0;
    const models::ChunkStats stats = task_.chunks[row_ * chunks_ + chunk];
    scale = exp_of(stats.maximum - stats_.maximum);
    return scale * stats.sum;
  }

  // The first lane whose running sum passes `left`, or kTeam; `before` becomes the sum up to that lane, or of
  // all lanes.
  template <typename T>
  __device__ static int first_past(T value, T left, T& before) {
    const T sum = running_sum(value) + before;
    const int hit = least_of_team(sum > left ? lane() : kTeam);
    const T last = from_lane(sum, hit == 0 ? 0 : hit - 1);
    if (hit > 0) before = last;
    return hit;
  }

  __device__ int32_t choose(double uniform) const {
    double total = 0.0, scale;
    for (int64_t base = 0; base < chunks_; base += kTeam)
      total = from_lane(running_sum(mass_of(base + lane(), scale)) + total, kTeam - 1);
    const double left = uniform * total;
    double before = 0.0;
    for (int64_t base = 0; base < chunks_; base += kTeam) {
      const double mass = mass_of(base + lane(), scale);
      const int hit = first_past(mass, left, before);
      if (hit == kTeam) continue;
      return choose_in(base + hit, (left - before) / from_lane(scale, hit));
    }
    return stats_.largest;  // only by rounding at the very end of the range
  }

  __device__ int32_t choose_in(int64_t chunk, double left) const {
    const float maximum = task_.chunks[row_ * chunks_ + chunk].maximum;
    double before = 0.0;
    int32_t last = -1;  // the last token that can be drawn: a chunk's sum rounds differently from these
    for (int s = 0; s < kSteps; ++s) {
      const int64_t first = chunk * kVocabChunk + s * kStep + 4 * lane();
      const Pack<float, 4> x = load(first);
      double weights[4], sum = 0.0;
      for (int i = 0; i < 4; ++i) {
        sum += weights[i] = exp_of(x.at[i] - maximum);
        if (weights[i] > 0.0) last = static_cast<int32_t>(first + i);
      }
      const int hit = first_past(sum, left, before);
      if (hit == kTeam) continue;
      int32_t token = -1;
      for (int i = 0; i < 4; ++i) {
        if (weights[i] == 0.0) continue;
        token = static_cast<int32_t>(first + i);
        before += weights[i];
        if (before > left) break;
      }
      return from_lane(token, hit);
    }
    return -least_of_team(-last);
  }

  // ---- with one

  __device__ static uint64_t whole(float weight) { return static_cast<uint64_t>(weight * 0x1p44); }

  /// Calls body(logit, weight) for every token that has a key up to `limit` and weighs at least min_p.
  template <typename Body>
  __device__ void for_each_token(uint32_t limit, bool heavy, const Body& body) const {
    for (int64_t first = 4 * static_cast<int64_t>(threadIdx.x); first < task_.vocab;
         first += 4 * kDrawThreads) {
      const Pack<float, 4> x = load(first);
      for (int i = 0; i < 4; ++i) {
        if (first + i >= task_.vocab || key_of(x.at[i]) > limit) continue;
        const float weight = exp_of(x.at[i] - stats_.maximum);
        if (!heavy || weight >= settings_.min_p) body(x.at[i], weight);
      }
    }
  }

  /// Eighths of a nat below the largest logit.
  __device__ int interval_of(float logit) const {
    const float eighths = (stats_.maximum - logit) * 8.0f;
    return eighths < kBins - 1 ? static_cast<int>(eighths) : kBins - 1;
  }

  /// Fills the histogram with the tokens for which bin_of(logit) >= 0.
  template <typename BinOf>
  __device__ void count(uint32_t limit, bool heavy, const BinOf& bin_of) {
    sync_block();
    for (int b = threadIdx.x; b < kBins; b += kDrawThreads) {
      shared_.counts[b] = 0;
      shared_.masses[b] = 0;
    }
    sync_block();
    for_each_token(limit, heavy, [&](float logit, float weight) {
      const int bin = bin_of(logit);
      if (bin < 0) return;
      add_shared(&shared_.counts[bin], uint32_t{1});
      add_shared(&shared_.masses[bin], whole(weight));
    });
    sync_block();
  }

  /// The first bin at which what came before it and its own reaches `wanted`, in tokens or in mass. By the
  /// first team, a lane for neighbouring bins.
  __device__ void find_bin(bool by_mass, uint64_t wanted) {
    constexpr int kOwn = kBins / kTeam;
    if (team() == 0) {
      uint64_t mass = 0;
      uint32_t count = 0;
      for (int b = kOwn * lane(); b < kOwn * (lane() + 1); ++b) {
        mass += shared_.masses[b];
        count += shared_.counts[b];
      }
      const uint64_t mass_sum = running_sum(mass) + shared_.mass_before;
      const uint32_t count_sum = running_sum(count) + shared_.count_before;
      const bool reaches = (by_mass ? mass_sum : uint64_t{count_sum}) >= wanted;
      const int hit = least_of_team(reaches ? lane() : kTeam - 1);  // the other lanes have read by now
      if (lane() == hit) take_bin(by_mass, wanted, mass_sum - mass, count_sum - count);
    }
    sync_block();
  }

  // Of this lane's own bins the decisive one.
  __device__ void take_bin(bool by_mass, uint64_t wanted, uint64_t mass_before, uint32_t count_before) {
    const int end = kBins / kTeam * (lane() + 1);
    int b = end - kBins / kTeam;
    for (; b < end - 1; ++b) {
      const uint64_t mass = mass_before + shared_.masses[b];
      const uint32_t count = count_before + shared_.counts[b];
      if ((by_mass ? mass : uint64_t{count}) >= wanted) break;
      mass_before = mass;
      count_before = count;
    }
    shared_.bin = b;
    shared_.mass_before = mass_before;
    shared_.count_before = count_before;
    shared_.mass = shared_.masses[b];
    shared_.count = shared_.counts[b];
  }

  /// The key at which the tokens in ascending order of keys reach `wanted`; what comes before and what has
  /// that key is left in shared_.
  __device__ uint32_t select(bool by_mass, uint64_t wanted, uint32_t limit, bool heavy) {
    sync_block();
    if (threadIdx.x == 0) {
      shared_.mass_before = 0;
      shared_.count_before = 0;
    }
    count(limit, heavy, [&](float logit) { return interval_of(logit); });
    find_bin(by_mass, wanted);
    const int interval = shared_.bin;
    uint32_t prefix = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
      count(limit, heavy, [&](float logit) {
        const uint32_t key = key_of(logit);
        const bool inside = interval_of(logit) == interval && (shift == 24 || key >> (shift + 8) == prefix);
        return inside ? static_cast<int>(key >> shift & 0xff) : -1;
      });
      find_bin(by_mass, wanted);
      prefix = prefix << 8 | static_cast<uint32_t>(shared_.bin);
    }
    return prefix;
  }

  __device__ uint64_t total_mass(uint32_t limit) {
    sync_block();
    if (threadIdx.x == 0) shared_.total = 0;
    sync_block();
    uint64_t own = 0;
    for_each_token(limit, true, [&](float, float weight) { own += whole(weight); });
    own = sum_of_team(own);
    if (lane() == 0) add_shared(&shared_.total, own);
    sync_block();
    return shared_.total;
  }

  __device__ Cut find_cut(bool has_top_k) {
    Cut cut{UINT32_MAX, UINT32_MAX, 0};
    if (has_top_k) {
      cut.key = select(false, static_cast<uint64_t>(settings_.top_k), UINT32_MAX, false);
      cut.tie_mass = shared_.mass / shared_.count;
    }
    if (settings_.top_p >= 1.0) return cut;
    const uint64_t total = total_mass(cut.key);
    auto wanted = static_cast<uint64_t>(ceil(settings_.top_p * static_cast<double>(total)));
    if (wanted > total) wanted = total;
    if (wanted == 0) wanted = 1;
    cut.key = select(true, wanted, cut.key, true);
    cut.tie_mass = shared_.mass / shared_.count;
    const uint64_t missing = wanted - shared_.mass_before;
    cut.ties = static_cast<uint32_t>((missing + cut.tie_mass - 1) / cut.tie_mass);
    return cut;
  }

  /// Whether a token is kept for certain, or has the cut's own key.
  __device__ void judge(const Cut& cut, float logit, uint64_t& mass, bool& is_tie) const {
    const float weight = exp_of(logit - stats_.maximum);
    const uint32_t key = key_of(logit);
    const bool eligible = weight >= settings_.min_p;  // false past the vocabulary, or no weight
    mass = eligible && key < cut.key ? whole(weight) : 0;
    is_tie = eligible && key == cut.key;
  }

  /// The mass that may be drawn, chunk by chunk into masses, and how many of its ties a chunk keeps into
  /// ties.
  __device__ uint64_t weigh_chunks(const Cut& cut) {
    uint64_t* const masses = task_.masses + row_ * chunks_;
    uint32_t* const ties = task_.ties + row_ * chunks_;
    for (int64_t chunk = team(); chunk < chunks_; chunk += teams_of_block()) {
      uint64_t mass = 0;
      uint32_t count = 0;
      for (int s = 0; s < kSteps; ++s) {
        const int64_t first = chunk * kVocabChunk + s * kStep + 4 * lane();
        const Pack<float, 4> x = load(first);
        for (int i = 0; i < 4; ++i) {
          uint64_t own;
          bool is_tie;
          judge(cut, x.at[i], own, is_tie);
          if (first + i >= task_.vocab) continue;
          mass += own;
          count += is_tie;
        }
      }
      mass = sum_of_team(mass);
      count = sum_of_team(count);
      if (lane() == 0) {
        masses[chunk] = mass;
        ties[chunk] = count;
      }
    }
    sync_block();
    if (team() == 0) {
      uint64_t total = 0;
      uint32_t ties_before = 0;
      for (int64_t base = 0; base < chunks_; base += kTeam) {
        const int64_t chunk = base + lane();
        const uint32_t own = chunk < chunks_ ? ties[chunk] : 0, sum = running_sum(own) + ties_before;
        const uint32_t earlier = sum - own, room = cut.ties > earlier ? cut.ties - earlier : 0;
        const uint32_t kept = own < room ? own : room;
        uint64_t mass = 0;
        if (chunk < chunks_) {
          mass = masses[chunk] + kept * cut.tie_mass;
          masses[chunk] = mass;
          ties[chunk] = kept;
        }
        total += sum_of_team(mass);
        ties_before = from_lane(sum, kTeam - 1);
      }
      if (lane() == 0) shared_.total = total;
    }
    sync_block();
    return shared_.total;
  }

  /// The token at which the kept mass, in order of ids, passes `left`, which is less than all of it.
  __device__ int32_t choose(const Cut& cut, uint64_t left) const {
    uint64_t before = 0;
    for (int64_t base = 0; base < chunks_; base += kTeam) {
      const int64_t chunk = base + lane();
      const int hit = first_past(chunk < chunks_ ? task_.masses[row_ * chunks_ + chunk] : 0, left, before);
      if (hit < kTeam) return choose_in(cut, base + hit, left, before);
    }
    return -1;  // cannot be
  }

  __device__ int32_t choose_in(const Cut& cut, int64_t chunk, uint64_t left, uint64_t before) const {
    const uint32_t kept = task_.ties[row_ * chunks_ + chunk];
    uint32_t ties_before = 0;
    for (int s = 0; s < kSteps; ++s) {
      const int64_t first = chunk * kVocabChunk + s * kStep + 4 * lane();
      const Pack<float, 4> x = load(first);
      uint64_t masses[4];
      bool is_tie[4];
      uint32_t ties = 0;
      for (int i = 0; i < 4; ++i) {
        judge(cut, x.at[i], masses[i], is_tie[i]);
        if (first + i >= task_.vocab) masses[i] = is_tie[i] = 0;
        ties += is_tie[i];
      }
      const uint32_t ties_sum = running_sum(ties) + ties_before;
      uint32_t rank = ties_sum - ties;
      uint64_t sum = 0;
      for (int i = 0; i < 4; ++i) {
        if (is_tie[i] && rank++ < kept) masses[i] = cut.tie_mass;
        sum += masses[i];
      }
      ties_before = from_lane(ties_sum, kTeam - 1);
      const int hit = first_past(sum, left, before);
      if (hit == kTeam) continue;
      int32_t token = -1;
      for (int i = 0; i < 4 && before <= left; ++i) {
        before += masses[i];
        token = static_cast<int32_t>(first + i);
      }
      return from_lane(token, hit);
    }
    return -1;  // cannot be
  }

  const rollout::GpuDraw& task_;
  const rollout::DrawSettings settings_;
  const models::SoftmaxRow stats_;
  const int64_t row_, chunks_;
  const float* const logits_;
  const float factor_;
  DrawShared& shared_;
};

__global__ void draw_tokens_kernel(rollout::GpuDraw task) {
  RowDraw(task, blockIdx.x, *reinterpret_cast<DrawShared*>(shared_memory())).run();
}

}  // namespace trireme::gpu
