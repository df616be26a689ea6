#include "launcher/verl/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "trainer/config/schema.h"

namespace trireme::verl {
namespace {

const std::string kActor = "actor_rollout_ref.actor.";
const std::string kRollout = "actor_rollout_ref.rollout.";

Value whole(int64_t number) {
  return scalar(std::to_string(number));
}

// ---- Ranks and folders.

void ranks(Draft& draft) {
  const int64_t nodes = draft.whole("trainer.nnodes", 1), all = num_ranks(draft) + rollout_ranks(draft);
  const std::string text = fmt::format("{} GPUs on each of {} {}", draft.whole("trainer.n_gpus_per_node", 8),
                                       nodes, nodes == 1 ? "machine" : "machines");
  for (const char* key : {"trainer.n_gpus_per_node", "trainer.nnodes"})
    draft.map(key, "run.ranks", whole(all), text);
  draft.set("run.ranks", whole(all), "");
  if (nodes > 1)
    draft.note(
        fmt::format("run.ranks = {} are on {} machines: name them, as in `trireme run CONFIG --hosts a,b`",
                    all, nodes));
}

void output_folder(Draft& draft) {
  if (const Setting* folder = draft.given("trainer.default_local_dir")) {
    draft.map("trainer.default_local_dir", "run.output_dir", folder->value);
    draft.needless("trainer.project_name", "trainer.default_local_dir names the folder");
  } else {
    draft.map("trainer.project_name", "run.output_dir",
              scalar("checkpoints/" + draft.text("trainer.project_name", "")),
              "where verl writes by default");
  }
}

void resume(Draft& draft) {
  const std::string mode = draft.text("trainer.resume_mode", "auto");
  const Setting* path = draft.given("trainer.resume_from_path");
  if (mode == "resume_path" && path) {
    draft.map(
        "trainer.resume_from_path", "trainer.resume", path->value,
        "a checkpoint's folder; one of verl's must be converted to a Hugging Face folder and be model.path");
    draft.mapped("trainer.resume_mode", "trainer.resume is that folder");
  } else if (mode == "disable") {
    draft.map("trainer.resume_mode", "trainer.resume", scalar("never"));
  } else if (mode == "auto") {
    draft.map("trainer.resume_mode", "trainer.resume", scalar("auto"));
  } else {
    draft.unsupported("trainer.resume_mode", "auto, disable, or resume_path with trainer.resume_from_path");
  }
  draft.needless("trainer.resume_from_path", "read where trainer.resume_mode = resume_path only");
}

// ---- Batches.

int64_t batch_size(const Draft& draft) {
  return std::max<int64_t>(1, draft.whole("data.train_batch_size", 1024));
}

int64_t mini_batch_size(const Draft& draft) {
  const int64_t asked = draft.whole(kActor + "ppo_mini_batch_size", 256);
  int64_t mini = std::clamp<int64_t>(asked, 1, batch_size(draft));
  while (batch_size(draft) % mini != 0) --mini;
  return mini;
}

void mini_batch(Draft& draft) {
  const std::string key = kActor + "ppo_mini_batch_size";
  const int64_t asked = draft.whole(key, 256), mini = mini_batch_size(draft);
  const bool sensible = asked > 0;
  const Setting* given = draft.given(key);
  draft.map(key, "actor.ppo_mini_batch_size",
            sensible ? whole(mini)
            : given  ? given->value
                     : whole(mini),
            asked == mini
                ? ""
                : fmt::format("{} does not divide data.train_batch_size = {}: the next smaller that does",
                              asked, batch_size(draft)));
  if (sensible) draft.set("actor.ppo_mini_batch_size", whole(mini), "");
}

/// The tokens of one micro-batch, by whichever of verl's three ways they are given.
void token_budget(Draft& draft, const std::string& role, const std::string& to, int64_t verl_default) {
  const std::string dynamic = role + "use_dynamic_bsz", tokens = role + "ppo_max_token_len_per_gpu",
                    per_gpu = role + "ppo_micro_batch_size_per_gpu", global = role + "ppo_micro_batch_size";
  const int64_t longest =
      draft.whole("data.max_prompt_length", 512) + draft.whole("data.max_response_length", 512);
  const bool is_dynamic =
      draft.flag(dynamic, role != kActor && draft.flag(kActor + "use_dynamic_bsz", false));
  // The ranks that share a sequence have room for it together.
  const int64_t ranks = sequence_ranks(draft, role);
  const auto share = [&](int64_t rows) { return (rows + ranks - 1) / ranks; };
  const auto at_least_one = [&](int64_t budget) { return whole(std::max(budget, share(longest))); };
  if (is_dynamic) {
    const int64_t asked = draft.whole(tokens, verl_default);
    draft.map(tokens, to, at_least_one(asked),
              asked < share(longest) ? "raised to the longest prompt with its response" : "");
    draft.set(to, at_least_one(asked), "");
    for (const std::string& micro : {per_gpu, global})
      draft.needless(micro, "use_dynamic_bsz: micro-batches are cut by tokens");
    draft.needless(dynamic, "micro-batches are always cut by tokens: " + to);
    return;
  }
  const std::string text = "sequences of the greatest length; shorter ones fill it with more";
  if (const auto size = draft.whole(per_gpu, 0); size > 0) {
    draft.map(per_gpu, to, at_least_one(share(size * longest)), fmt::format("{} {}", size, text));
  } else if (const auto all = draft.whole(global, 0); all > 0) {
    const int64_t size = std::max<int64_t>(1, all * ranks / std::max<int64_t>(1, num_ranks(draft)));
    draft.map(global, to, at_least_one(share(size * longest)), fmt::format("{} {}", size, text));
  }
  draft.needless(global, "ppo_micro_batch_size_per_gpu goes before it");
  draft.set(to, at_least_one(verl_default), "");
  draft.needless(tokens, "use_dynamic_bsz is off: micro-batches go by ppo_micro_batch_size_per_gpu");
  draft.needless(dynamic, "micro-batches are always cut by tokens: " + to);
}

void actor_budget(Draft& draft) {
  token_budget(draft, kActor, "actor.ppo_max_token_len_per_rank", 16384);
}
void critic_budget(Draft& draft) {
  if (has_critic(draft)) token_budget(draft, "critic.", "critic.ppo_max_token_len_per_rank", 32768);
}

// ---- Loss and schedule.

// A ratio is above 0, so 1 - 10 clips no more than 1 - 1 does.
Value bounded(const Value& value, const std::string& side) {
  return side == "low" && as_number(value.text).value_or(0) > 1 ? scalar("1.0") : value;
}

void clip(Draft& draft) {
  const Setting* both = draft.given(kActor + "clip_ratio");
  for (const char* side : {"low", "high"}) {
    const std::string leaf = std::string("clip_ratio_") + side;
    if (const Setting* given = draft.given(kActor + leaf))
      draft.map(kActor + leaf, "actor." + leaf, bounded(given->value, side));
    else if (both)
      draft.set("actor." + leaf, bounded(both->value, side), shown(*both));
    else
      draft.set("actor." + leaf, scalar("0.2"), "");
  }
  if (!both) return;
  if (draft.given(kActor + "clip_ratio_low") && draft.given(kActor + "clip_ratio_high"))
    return draft.needless(both->key, "clip_ratio_low and clip_ratio_high go before it");
  const std::string side = draft.given(kActor + "clip_ratio_low") ? "high" : "low";
  draft.map(both->key, "actor.clip_ratio_" + side, bounded(both->value, side),
            "for each side that is not given by itself; verl reads it only where those are null");
}

// verl computes these losses over whole responses, whatever loss_agg_mode says.
void loss_aggregation(Draft& draft) {
  const std::string key = kActor + "loss_agg_mode",
                    mode = draft.text(kActor + "policy_loss.loss_mode", "vanilla");
  const bool whole_responses = mode == "gspo" || mode == "sapo" || mode == "geo_mean";
  const Value value = scalar(whole_responses ? "seq-mean-token-mean" : draft.text(key, "token-mean"));
  draft.map(key, "actor.loss_agg_mode", value,
            whole_responses ? "as verl does with loss_mode = " + mode : "");
  draft.set("actor.loss_agg_mode", value, "");
}

// With bypass_mode the loss's own ratio is to rollout's policy: nothing is left to weigh.
void bypass(Draft& draft) {
  const std::string c = "algorithm.rollout_correction.";
  if (!draft.flag(c + "bypass_mode", false)) return;
  draft.needless(c + "rollout_is", "bypass_mode: the loss's ratio is to rollout's own policy");
  if (draft.given(c + "rollout_rs"))
    draft.unsupported(c + "rollout_rs",
                      "not together with bypass_mode: leave that out to mask by rollout_rs");
  draft.needless(c + "rollout_rs_threshold", "see rollout_rs");
}

// "2.0", or "0.5_2.0" for weights that become 0 on both sides.
void rollout_is_threshold(Draft& draft) {
  const std::string key = "algorithm.rollout_correction.rollout_is_threshold";
  const std::string text = draft.text(key, "2.0");
  const size_t bar = text.find('_');
  const std::string high = bar == std::string::npos ? text : text.substr(bar + 1);
  draft.map(key, key, scalar(high));
  draft.set(key, scalar(high), "");
  if (const Setting* given = draft.given(key); given && bar != std::string::npos)
    if (const std::string wrong = draft.set(key + "_low", scalar(text.substr(0, bar)), shown(*given));
        !wrong.empty())
      draft.note(shown(*given) + ": " + wrong);
}

void warm_up(Draft& draft, const std::string& role, const std::string& to) {
  const std::string steps_key = role + "optim.lr_warmup_steps",
                    ratio_key = role + "optim.lr_warmup_steps_ratio";
  const int64_t steps = draft.whole(steps_key, -1);
  if (steps >= 0) {
    draft.map(steps_key, to, whole(steps));
    return draft.needless(ratio_key, "lr_warmup_steps goes before it");
  }
  const Setting* ratio = draft.given(ratio_key);
  const double share = ratio ? as_number(ratio->value.text).value_or(0) : 0;
  const int64_t total = draft.whole("trainer.total_training_steps", 0);
  draft.needless(steps_key, "-1: lr_warmup_steps_ratio holds");
  if (share <= 0)
    draft.needless(ratio_key, "0: no warm-up");
  else if (total > 0)
    draft.map(ratio_key, to, whole(static_cast<int64_t>(share * static_cast<double>(total))));
  else
    draft.unsupported(ratio_key,
                      fmt::format("a share of a number of steps that is not known here: set {} to {} x "
                                  "the run's steps",
                                  to, share));
}

void actor_warm_up(Draft& draft) {
  warm_up(draft, kActor, "actor.optim.lr_warmup_steps");
}
void critic_warm_up(Draft& draft) {
  if (has_critic(draft)) warm_up(draft, "critic.", "critic.optim.lr_warmup_steps");
}

void betas(Draft& draft, const std::string& key, const std::string& table) {
  const Setting* given = draft.given(key);
  const bool pair = given && given->value.kind == Value::Kind::list && given->value.items.size() == 2;
  if (given && !pair) return draft.unsupported(key, "two numbers, as in [0.9,0.999]");
  const std::string from = pair ? shown(*given) : "";
  std::string wrong = draft.set(table + "beta1", scalar(pair ? given->value.items[0] : "0.9"), from);
  if (wrong.empty()) wrong = draft.set(table + "beta2", scalar(pair ? given->value.items[1] : "0.999"), from);
  if (!pair) return;
  if (!wrong.empty()) return draft.unsupported(key, wrong);
  draft.mapped(key,
               fmt::format("{0}beta1 = {1}, {0}beta2 = {2}", table, draft.lines().at(table + "beta1").value,
                           draft.lines().at(table + "beta2").value));
}

void actor_betas(Draft& draft) {
  betas(draft, kActor + "optim.betas", "actor.optim.");
}
void critic_betas(Draft& draft) {
  if (has_critic(draft)) betas(draft, "critic.optim.betas", "critic.optim.");
}

// ---- Data and rewards.

// All keys below `prefix` as one JSON object, our key `to`.
void as_object(Draft& draft, const std::string& prefix, const std::string& to) {
  nlohmann::json variables = nlohmann::json::object();
  std::string from;
  std::vector<std::string> keys;
  for (const Setting& setting : draft.settings().settings) {
    if (setting.key.rfind(prefix, 0) != 0 || !draft.given(setting.key)) continue;
    const std::string& text = setting.value.text;
    nlohmann::json value = text;
    if (setting.value.kind == Value::Kind::list)
      value = setting.value.items;
    else if (const auto flag = as_flag(text))
      value = *flag;
    else if (const auto number = as_whole(text))
      value = *number;
    else if (const auto fraction = as_number(text))
      value = *fraction;
    variables[setting.key.substr(prefix.size())] = std::move(value);
    keys.push_back(setting.key);
    from += (from.empty() ? "" : ", ") + shown(setting);
  }
  if (keys.empty()) return;
  const std::string wrong = draft.set(to, scalar(variables.dump()), from);
  for (const std::string& key : keys)
    wrong.empty() ? draft.mapped(key, to + " = '" + variables.dump() + "'") : draft.unsupported(key, wrong);
}

void chat_template(Draft& draft) {
  as_object(draft, "data.apply_chat_template_kwargs.", "data.chat_template_kwargs");
}

// Both places in which verl takes them.
constexpr const char* kRewardFunctions[] = {"reward.custom_reward_function.", "custom_reward_function."};

void reward_function_kwargs(Draft& draft) {
  for (const std::string prefix : kRewardFunctions)
    as_object(draft, prefix + "reward_kwargs.", "reward.function.kwargs");
}

// verl answers greedily unless do_sample is on, whatever stands beside it.
void validation(Draft& draft) {
  const std::string from = kRollout + "val_kwargs.", to = "rollout.val_kwargs.";
  const bool samples = draft.flag(from + "do_sample", false) &&
                       as_number(draft.text(from + "temperature", "0")).value_or(0) > 0;
  draft.needless(from + "do_sample",
                 samples ? "rollout.val_kwargs.temperature is above 0" : "evaluations answer greedily");
  for (const char* leaf : {"n", "temperature", "top_k", "top_p"}) {
    const Setting* given = draft.given(from + leaf);
    if (!given) continue;
    if (samples)
      draft.map(given->key, to + leaf, given->value);
    else
      draft.needless(given->key,
                     "evaluations answer greedily (val_kwargs.do_sample, val_kwargs.temperature)");
  }
}

}  // namespace

int64_t num_ranks(const Draft& draft) {
  return draft.whole("trainer.n_gpus_per_node", 8) * draft.whole("trainer.nnodes", 1);
}

int64_t rollout_ranks(const Draft& draft) {
  return std::max<int64_t>(0, draft.whole("rollout.n_gpus_per_node", 0) * draft.whole("rollout.nnodes", 1));
}

bool has_critic(const Draft& draft) {
  return draft.flag("critic.enable", draft.text("algorithm.adv_estimator", "gae") == "gae");
}

const std::vector<Rule>& rules() {
  static const std::vector<Rule> all = [] {
    const std::string a = kActor, c = "critic.", r = kRollout;
    return std::vector<Rule>{
        {{"trainer.n_gpus_per_node", "trainer.nnodes"}, {"run.ranks"}, ranks},
        {{"rollout.n_gpus_per_node", "rollout.nnodes"},
         {"placement.actor", "placement.critic", "placement.reference", "placement.rollout",
          "rollout.steps_ahead", "algorithm.rollout_correction.rollout_is"},
         rollout_apart},
        {{"trainer.default_local_dir", "trainer.project_name"}, {"run.output_dir"}, output_folder},
        {{"trainer.resume_mode", "trainer.resume_from_path"}, {"trainer.resume"}, resume},
        {{a + "ppo_mini_batch_size"}, {"actor.ppo_mini_batch_size"}, mini_batch},
        {{a + "use_dynamic_bsz", a + "ppo_max_token_len_per_gpu", a + "ppo_micro_batch_size_per_gpu",
          a + "ppo_micro_batch_size"},
         {"actor.ppo_max_token_len_per_rank"},
         actor_budget},
        {{c + "use_dynamic_bsz", c + "ppo_max_token_len_per_gpu", c + "ppo_micro_batch_size_per_gpu",
          c + "ppo_micro_batch_size"},
         {"critic.ppo_max_token_len_per_rank"},
         critic_budget},
        {{a + "clip_ratio", a + "clip_ratio_low", a + "clip_ratio_high"},
         {"actor.clip_ratio_low", "actor.clip_ratio_high"},
         clip},
        {{a + "loss_agg_mode"}, {"actor.loss_agg_mode"}, loss_aggregation},
        {{}, {"algorithm.rollout_correction.bypass_mode"}, bypass},
        {{"algorithm.rollout_correction.rollout_is_threshold"},
         {"algorithm.rollout_correction.rollout_is_threshold",
          "algorithm.rollout_correction.rollout_is_threshold_low"},
         rollout_is_threshold},
        {{a + "optim.lr_warmup_steps", a + "optim.lr_warmup_steps_ratio"},
         {"actor.optim.lr_warmup_steps"},
         actor_warm_up},
        {{c + "optim.lr_warmup_steps", c + "optim.lr_warmup_steps_ratio"},
         {"critic.optim.lr_warmup_steps"},
         critic_warm_up},
        {{a + "optim.betas"}, {"actor.optim.beta1", "actor.optim.beta2"}, actor_betas},
        {{c + "optim.betas"}, {"critic.optim.beta1", "critic.optim.beta2"}, critic_betas},
        {{a + "strategy", a + "fsdp_config.reshard_after_forward", a + "fsdp_config.fsdp_size",
          a + "megatron.tensor_model_parallel_size", a + "megatron.pipeline_model_parallel_size",
          a + "megatron.use_distributed_optimizer", a + "megatron.context_parallel_size",
          a + "ulysses_sequence_parallel_size"},
         {"actor.parallel.zero_stage", "actor.parallel.tp", "actor.parallel.pp", "actor.parallel.cp"},
         actor_layout},
        {{c + "strategy", c + "fsdp.reshard_after_forward", c + "fsdp.fsdp_size",
          c + "model.fsdp_config.reshard_after_forward", c + "model.fsdp_config.fsdp_size",
          c + "megatron.tensor_model_parallel_size", c + "megatron.pipeline_model_parallel_size",
          c + "megatron.use_distributed_optimizer", c + "megatron.context_parallel_size",
          c + "ulysses_sequence_parallel_size"},
         {"critic.parallel.zero_stage", "critic.parallel.tp", "critic.parallel.pp", "critic.parallel.cp"},
         critic_layout},
        {{"actor_rollout_ref.ref.megatron.tensor_model_parallel_size",
          "actor_rollout_ref.ref.megatron.pipeline_model_parallel_size",
          "actor_rollout_ref.ref.megatron.context_parallel_size",
          "actor_rollout_ref.ref.ulysses_sequence_parallel_size", kRollout + "tensor_model_parallel_size"},
         {"reference.parallel.tp", "reference.parallel.pp", "reference.parallel.cp", "rollout.parallel.tp"},
         inference_layout},
        {{a + "fsdp_config.dtype", a + "megatron.dtype", kRollout + "dtype"}, {"model.dtype"}, dtype},
        {{"data.apply_chat_template_kwargs.*"}, {"data.chat_template_kwargs"}, chat_template},
        {{"reward.custom_reward_function.reward_kwargs.*", "custom_reward_function.reward_kwargs.*"},
         {"reward.function.kwargs"},
         reward_function_kwargs},
        {{"reward_model.enable", "reward.reward_model.enable", "reward_model.model.input_tokenizer"},
         {"reward_model.input"},
         reward_model},
        {{}, {"reward.name"}, reward_rule},
        {{r + "val_kwargs.do_sample", r + "val_kwargs.n", r + "val_kwargs.temperature",
          r + "val_kwargs.top_k", r + "val_kwargs.top_p"},
         {"rollout.val_kwargs.n", "rollout.val_kwargs.temperature", "rollout.val_kwargs.top_k",
          "rollout.val_kwargs.top_p"},
         validation}};
  }();
  return all;
}

}  // namespace trireme::verl
