// How long the plan of a reshard takes, and what it will move: a decoder of Llama's shapes, from training
// ranks (ZeRO-3) to rollout groups.
//
//   reshard_plan_bench [70b|8b] [MB of staging]     prints, per placement, times of one rank's part and of
//   the statistics, and a table
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <string>

#include "runtime/tensors/reshard_traffic.h"

namespace {

using namespace trireme::tensors;

struct Shape {
  int layers;
  int64_t hidden, mlp, heads, kv_heads, head_dim, vocab;
};

struct Model {
  std::vector<TensorSpec> tensors;
  std::vector<Split> splits;

  void add(std::string name, std::vector<int64_t> dims, int block, Split split, bool joins_previous = false) {
    tensors.push_back({std::move(name), std::move(dims), block, joins_previous, {}});
    splits.push_back(split);
  }
};

Model decoder(const Shape& s) {
  Model model;
  model.add("model.embed_tokens.weight", {s.vocab, s.hidden}, 0, {0, 1, Fit::uneven});
  for (int layer = 0; layer < s.layers; ++layer) {
    const int block = layer + 1;
    const std::string name = fmt::format("model.layers.{}.", layer);
    model.add(name + "input_layernorm.weight", {s.hidden}, block, {});
    model.add(name + "self_attn.q_proj.weight", {s.heads * s.head_dim, s.hidden}, block, {0, s.head_dim});
    for (const char* part : {"k", "v"})
      model.add(fmt::format("{}self_attn.{}_proj.weight", name, part), {s.kv_heads * s.head_dim, s.hidden},
                block, {0, s.head_dim, Fit::repeat}, true);
    model.add(name + "self_attn.o_proj.weight", {s.hidden, s.heads * s.head_dim}, block, {1, s.head_dim});
    model.add(name + "post_attention_layernorm.weight", {s.hidden}, block, {});
    model.add(name + "mlp.gate_proj.weight", {s.mlp, s.hidden}, block, {0});
    model.add(name + "mlp.up_proj.weight", {s.mlp, s.hidden}, block, {0}, true);
    model.add(name + "mlp.down_proj.weight", {s.hidden, s.mlp}, block, {1});
  }
  model.add("model.norm.weight", {s.hidden}, s.layers + 1, {});
  model.add("lm_head.weight", {s.vocab, s.hidden}, s.layers + 1, {0, 1, Fit::uneven});
  return model;
}

Layout layout(const Model& model, const char* role, int first, int count, int tp, bool zero) {
  Layout layout;
  layout.role = role;
  layout.mesh = {count / tp, tp, std::vector<int>(count)};
  std::iota(layout.mesh.ranks.begin(), layout.mesh.ranks.end(), first);
  layout.splits = model.splits;
  layout.zero = zero;
  layout.alignment = 64;
  return layout;
}

template <typename Body>
double best_ms(Body body) {
  double best = 1e30;
  for (int i = 0; i < 5; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    body();
    best = std::min(
        best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

int64_t staging_bytes = ReshardOptions().staging_bytes;

void show(const std::string& title, const Model& model, const Layout& from, const Layout& to,
          int relays = 0) {
  const int num_ranks = 1 + std::max(from.mesh.ranks.back(), to.mesh.ranks.back());
  std::vector<int> node_of(num_ranks);
  for (int rank = 0; rank < num_ranks; ++rank) node_of[rank] = rank / 8;
  Reshard reshard{model.tensors, from, to, node_of};
  reshard.options.relays = relays;
  reshard.options.staging_bytes = staging_bytes;
  check(reshard).throw_if_any("the layouts:");
  RankPlan plan;
  Traffic traffic;
  const double source_ms = best_ms([&] { plan = plan_for(reshard, from.mesh.ranks.back() - 1); });
  RankPlan source = plan;
  const double destination_ms = best_ms([&] { plan = plan_for(reshard, to.mesh.ranks.back() - 1); });
  const double traffic_ms = best_ms([&] { traffic = traffic_of(reshard); });
  size_t messages = 0;
  for (const RankPlan* part : {&source, &plan})
    for (const Round& round : part->rounds)
      messages = std::max(messages, round.sends.size() + round.forwards.size() + round.receives.size());
  fmt::print("{}\n  one rank's part {:.0f} ms (a source), {:.0f} ms (a destination); statistics {:.0f} ms\n",
             title, source_ms, destination_ms, traffic_ms);
  fmt::print("  of these two ranks: at most {} messages in a round, {:.0f} MB of staging\n{}\n", messages,
             static_cast<double>(std::max(source.staging_bytes, plan.staging_bytes)) / 1e6, traffic.table());
}

}  // namespace

int main(int argc, char** argv) {
  const bool small = argc > 1 && std::string(argv[1]) == "8b";
  if (argc > 2) staging_bytes = std::stoll(argv[2]) << 20;
  const Model model = decoder(small ? Shape{32, 4096, 14336, 32, 8, 128, 128256}
                                    : Shape{80, 8192, 28672, 64, 8, 128, 128256});
  int64_t elements = 0;
  for (const TensorSpec& tensor : model.tensors)
    elements += std::accumulate(tensor.dims.begin(), tensor.dims.end(), int64_t{1}, std::multiplies<>());
  fmt::print("{:.2f} * 10^9 elements, {:.1f} GB in bf16, nodes of 8 ranks\n\n", elements / 1e9,
             2 * elements / 1e9);
  show("512 ranks, tp 8 x dp 64, ZeRO-3 -> the same ranks, 128 groups of tp 4", model,
       layout(model, "actor", 0, 512, 8, true), layout(model, "rollout", 0, 512, 4, false));
  show("512 ranks, tp 8 x dp 64, ZeRO-3 -> 512 others, 128 groups of tp 4", model,
       layout(model, "actor", 0, 512, 8, true), layout(model, "rollout", 512, 512, 4, false));
  show("512 ranks, tp 8 x dp 64, whole slices -> 512 others, 128 groups of tp 4", model,
       layout(model, "actor", 0, 512, 8, false), layout(model, "rollout", 512, 512, 4, false));
  show("64 ranks, tp 8 x dp 8, ZeRO-3 -> 512 others, 128 groups of tp 4", model,
       layout(model, "actor", 0, 64, 8, true), layout(model, "rollout", 64, 512, 4, false));
  show("the same, passed on by up to 6 relays", model, layout(model, "actor", 0, 64, 8, true),
       layout(model, "rollout", 64, 512, 4, false), 6);
  return 0;
}
