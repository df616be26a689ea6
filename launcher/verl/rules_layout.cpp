// How verl's roles hold their models, as layouts of ours.
#include <fmt/format.h>

#include <algorithm>

#include "launcher/verl/rules.h"

namespace trireme::verl {
namespace {

const std::string kActor = "actor_rollout_ref.actor.";
const std::string kReference = "actor_rollout_ref.ref.";
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

std::string cp_key(const std::string& role, bool megatron) {
  return role + (megatron ? "megatron.context_parallel_size" : "ulysses_sequence_parallel_size");
}

/// Ranks that share out a sequence's rows, by the strategy's key; the other one's means nothing.
void share_sequences(Draft& draft, const std::string& role, const std::string& to) {
  const bool megatron = is_megatron(draft, role == kReference ? kActor : role);
  const std::string key = cp_key(role, megatron);
  if (const Setting* given = draft.given(key)) draft.map(key, to + "cp", given->value);
  draft.needless(cp_key(role, !megatron), megatron ? "the strategy is megatron" : "the strategy is FSDP");
}

/// FSDP cuts weights, gradients and the optimizer's state; Megatron's distributed optimizer the last only.
void training_layout(Draft& draft, const std::string& role, const std::string& fsdp, const std::string& to) {
  const std::string tp_key = role + "megatron.tensor_model_parallel_size",
                    pp_key = role + "megatron.pipeline_model_parallel_size",
                    reshard_key = fsdp + "reshard_after_forward", size_key = fsdp + "fsdp_size",
                    distributed_key = role + "megatron.use_distributed_optimizer", stage = to + "zero_stage";
  const bool one_rank = num_ranks(draft) <= 1;
  if (is_megatron(draft, role)) {
    const bool distributed = draft.flag(distributed_key, true) && !one_rank;
    if (const Setting* tp = draft.given(tp_key)) draft.map(tp_key, to + "tp", tp->value);
    if (const Setting* pp = draft.given(pp_key)) draft.map(pp_key, to + "pp", pp->value);
    share_sequences(draft, role, to);
    draft.map(distributed_key, stage, whole(distributed ? 1 : 0));
    draft.set(stage, whole(distributed ? 1 : 0), "");
    draft.needless(role + "strategy", "megatron: zero_stage 1, tp and pp");
    for (const std::string& key : {reshard_key, size_key}) draft.needless(key, "the strategy is megatron");
    return;
  }
  for (const std::string& key : {tp_key, pp_key, distributed_key})
    draft.needless(key, "the strategy is FSDP");
  share_sequences(draft, role, to);
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

int64_t sequence_ranks(const Draft& draft, const std::string& role) {
  return std::max<int64_t>(1, draft.whole(cp_key(role, is_megatron(draft, role)), 1));
}

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
  for (const auto& [size, axis] :
       {std::pair{"tensor_model_parallel_size", "tp"}, std::pair{"pipeline_model_parallel_size", "pp"}}) {
    const std::string ref = std::string("actor_rollout_ref.ref.megatron.") + size,
                      to = std::string("reference.parallel.") + axis;
    if (is_megatron(draft, kActor)) {
      if (const Setting* given = draft.given(ref)) draft.map(ref, to, given->value);
      draft.set(to, whole(draft.whole(kActor + "megatron." + size, 1)), "");
    }
    draft.needless(ref, "the strategy is FSDP");
  }
  share_sequences(draft, kReference, "reference.parallel.");
  if (const int64_t cp = sequence_ranks(draft, kActor); cp > 1)  // verl's reference follows its actor
    draft.set("reference.parallel.cp", whole(cp), "");
  const std::string key = kRollout + "tensor_model_parallel_size";
  if (const Setting* given = draft.given(key)) {
    draft.map(key, "rollout.parallel.tp", given->value);
  } else if ((rollout_ranks(draft) > 0 ? rollout_ranks(draft) : num_ranks(draft)) % 2 == 0) {
    draft.set("rollout.parallel.tp", whole(2), "");
  }
}

// verl's one-step-off trainer: rollout on GPUs of its own, behind those that train, one step ahead.
void rollout_apart(Draft& draft) {
  const int64_t own = rollout_ranks(draft), training = num_ranks(draft);
  if (own == 0) {
    for (const char* key : {"rollout.n_gpus_per_node", "rollout.nnodes"})
      if (draft.given(key)) draft.needless(key, "no ranks of its own: rollout is on those that train");
    return;
  }
  const auto range = [](int64_t first, int64_t count) {
    return scalar(count == 1 ? fmt::format("{}", first) : fmt::format("{}-{}", first, first + count - 1));
  };
  for (const char* key : {"rollout.n_gpus_per_node", "rollout.nnodes"})
    draft.map(key, "placement.rollout", range(training, own), "ranks of its own, behind those that train");
  for (const char* role : {"actor", "critic", "reference"})
    if (std::string(role) != "critic" || has_critic(draft))
      draft.set(std::string("placement.") + role, range(0, training), "");
  draft.set("rollout.steps_ahead", whole(1), "");
  const std::string correction = "algorithm.rollout_correction.rollout_is";
  if (!draft.given(correction)) draft.set(correction, scalar("none"), "");
  if (draft.given("actor_rollout_ref.hybrid_engine"))
    draft.needless("actor_rollout_ref.hybrid_engine", "[placement] names the ranks of each role");
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
