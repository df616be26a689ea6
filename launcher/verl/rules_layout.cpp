// How verl's roles hold their models, as layouts of ours.
#include <fmt/format.h>

#include <algorithm>

#include "launcher/verl/rules.h"

namespace trireme::verl {
namespace {

const std::string kActor = "actor_rollout_ref.actor.";
const std::string kRollout = "actor_rollout_ref.rollout.";

Value whole(int64_t number) {
  return scalar(std::to_string(number));
}

bool is_megatron(const Draft& draft, const std::string& role) {
  const std::string strategy = draft.text(role + "strategy", "");
  if (!strategy.empty()) return strategy == "megatron";
  const auto& options = draft.settings().options;
  return std::any_of(options.begin(), options.end(),
                     [](const std::string& option) { return option.find("megatron") != std::string::npos; });
}

/// FSDP cuts weights, gradients and the optimizer's state; Megatron's distributed optimizer the last only.
void training_layout(Draft& draft, const std::string& role, const std::string& fsdp, const std::string& to) {
  const std::string tp_key = role + "megatron.tensor_model_parallel_size",
                    reshard_key = fsdp + "reshard_after_forward", size_key = fsdp + "fsdp_size",
                    distributed_key = role + "megatron.use_distributed_optimizer", stage = to + "zero_stage";
  const bool one_rank = num_ranks(draft) <= 1;
  if (is_megatron(draft, role)) {
    const bool distributed = draft.flag(distributed_key, true) && !one_rank;
    if (const Setting* tp = draft.given(tp_key)) draft.map(tp_key, to + "tp", tp->value);
    draft.map(distributed_key, stage, whole(distributed ? 1 : 0));
    draft.set(stage, whole(distributed ? 1 : 0), "");
    draft.needless(role + "strategy", "megatron: zero_stage 1 and tp");
    for (const std::string& key : {reshard_key, size_key}) draft.needless(key, "the strategy is megatron");
    return;
  }
  for (const std::string& key : {tp_key, distributed_key}) draft.needless(key, "the strategy is FSDP");
  const int64_t size = draft.whole(size_key, -1);
  const int64_t zero = one_rank || size == 1 ? 0 : draft.flag(reshard_key, true) ? 3 : 2;
  draft.map(role + "strategy", stage, whole(zero),
            one_rank ? "one rank has all"
                     : fmt::format("weights are {} over all ranks", zero == 3 ? "cut" : "whole"));
  draft.map(reshard_key, stage, whole(zero));
  draft.set(stage, whole(zero), "");
  if (size == -1 || size == 1 || size >= num_ranks(draft))
    draft.map(size_key, stage, whole(zero));
  else
    draft.unsupported(size_key,
                      fmt::format("the state is shared out over all ranks, not {}: it is a matter of memory "
                                  "and messages, the numbers are the same",
                                  size));
}

}  // namespace

void actor_layout(Draft& draft) {
  training_layout(draft, kActor, kActor + "fsdp_config.", "actor.parallel.");
}

void critic_layout(Draft& draft) {
  if (!has_critic(draft)) return;
  const bool older = draft.settings().find("critic.model.fsdp_config.reshard_after_forward") ||
                     draft.settings().find("critic.model.fsdp_config.fsdp_size");
  training_layout(draft, "critic.", older ? "critic.model.fsdp_config." : "critic.fsdp.", "critic.parallel.");
}

void inference_layout(Draft& draft) {
  const std::string ref = "actor_rollout_ref.ref.megatron.tensor_model_parallel_size";
  const int64_t actor_tp =
      is_megatron(draft, kActor) ? draft.whole(kActor + "megatron.tensor_model_parallel_size", 1) : 1;
  if (is_megatron(draft, kActor)) {
    if (const Setting* given = draft.given(ref)) draft.map(ref, "reference.parallel.tp", given->value);
    draft.set("reference.parallel.tp", whole(actor_tp), "");
  }
  draft.needless(ref, "the strategy is FSDP");
  const std::string key = kRollout + "tensor_model_parallel_size";
  if (const Setting* given = draft.given(key)) {
    draft.map(key, "rollout.parallel.tp", given->value);
  } else if (num_ranks(draft) % 2 == 0) {
    draft.set("rollout.parallel.tp", whole(2), "");
  }
}

void dtype(Draft& draft) {
  for (const std::string& key :
       {kActor + "fsdp_config.dtype", kActor + "megatron.dtype", kRollout + "dtype"}) {
    const std::string name = draft.text(key, "");
    const bool half = name == "bfloat16" || name == "bf16";
    const bool full = name == "float32" || name == "fp32";
    if (half || full)
      draft.map(key, "model.dtype", scalar(half ? "bf16" : "fp32"));
    else if (draft.given(key))
      draft.unsupported(key, "model.dtype is bf16 or fp32");
  }
  draft.set("model.dtype", scalar("bf16"), "");
}

}  // namespace trireme::verl
