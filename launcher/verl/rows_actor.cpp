// actor_rollout_ref.actor.*, actor_rollout_ref.ref.*, critic.*
#include "launcher/verl/rows.h"

namespace trireme::verl::table {
namespace {

const char* const kPacked =
    "sequences are packed up to actor.ppo_max_token_len_per_rank; the numbers are the same";

// AdamW and its schedule, of the role at `from` to the table `to`; what takes several keys is in rules.h.
void add_optim(Rows& rows, const std::string& from, const std::string& to, const std::string& lr) {
  rows.insert(
      rows.end(),
      {maps(from + "lr", to + "lr", lr), maps(from + "weight_decay", to + "weight_decay", "0.01"),
       maps(from + "lr_scheduler_type", to + "lr_scheduler_type", "constant"),
       maps(from + "warmup_style", to + "lr_scheduler_type", "", {}, "the older name of lr_scheduler_type"),
       maps(from + "lr_decay_style", to + "lr_scheduler_type", "", {},
            "Megatron's name of lr_scheduler_type"),
       maps(from + "min_lr_ratio", to + "min_lr_ratio", "0.0"),
       needless(from + "total_training_steps", "the schedule ends with the run"),
       unsupported(from + "num_cycles", {"0.5"}, "cosine goes down once, over half a period"),
       unsupported(from + "optimizer", {"AdamW", "adam", "Adam"}, "the optimizer is AdamW"),
       unsupported(from + "optimizer_impl", {"torch.optim"}, "the optimizer is our own AdamW"),
       unsupported(from + "lr_warmup_init", {"0", "0.0"}, "the warm-up begins at lr / lr_warmup_steps"),
       unsupported(from + "lr_decay_steps", {}, "the schedule ends with the run"),
       unsupported(from + "min_lr", {"0", "0.0"}, "set " + to + "min_lr_ratio = min_lr / lr"),
       unsupported(from + "weight_decay_incr_style", {"constant"}, "weight decay is constant"),
       needless(from + "lr_wsd_decay_style", "for lr_decay_style = WSD only"),
       needless(from + "lr_wsd_decay_steps", "for lr_decay_style = WSD only"),
       needless(from + "use_checkpoint_opt_param_scheduler", "a resumed run goes on in its schedule"),
       needless(from + "override_optimizer_config.*",
                "how Megatron stores and moves the optimizer's state; see " + to.substr(0, to.find('.')) +
                    ".parallel.zero_stage")});
}

}  // namespace

void add_actor(Rows& rows) {
  const std::string a = "actor_rollout_ref.actor.";
  rows.insert(
      rows.end(),
      {same(a + "ppo_epochs", "1"),
       same(a + "clip_ratio_c", "3.0"),
       same(a + "loss_scale_factor"),
       same(a + "entropy_coeff", "0"),
       same(a + "use_kl_loss", "False"),
       same(a + "kl_loss_coef", "0.001"),
       same(a + "kl_loss_type", "low_var_kl"),
       same(a + "policy_loss.loss_mode", "vanilla"),
       same(a + "policy_loss.clip_cov_ratio", "0.0002"),
       same(a + "policy_loss.clip_cov_lb", "1.0"),
       same(a + "policy_loss.clip_cov_ub", "5.0"),
       same(a + "policy_loss.kl_cov_ratio", "0.0002"),
       same(a + "policy_loss.ppo_kl_coef", "0.1"),
       maps(a + "tau_pos", "actor.policy_loss.tau_pos", "1.0"),
       maps(a + "tau_neg", "actor.policy_loss.tau_neg", "1.05"),
       maps(a + "grad_clip", "actor.optim.grad_clip", "1.0"),
       maps(a + "optim.clip_grad", "actor.optim.grad_clip", ""),
       needless(a + "rollout_n", "rollout.n"),
       unsupported(a + "load_weight", {"True"}, "set model.random_weights = true to draw the weights"),
       unsupported(a + "shuffle", {"False"}, "mini-batches are cut in the order of the batch"),
       needless(a + "data_loader_seed", "run.seed gives all random numbers"),
       needless(a + "use_torch_compile", "nothing is compiled at run time"),
       needless(a + "use_fused_kernels", "kernels are our own"),
       needless(a + "use_remove_padding", "sequences are packed without padding, always"),
       needless(a + "use_prefix_grouper", "a prompt is computed once for all its samples, always"),
       needless(a + "calculate_entropy", "the entropy is among the metrics where actor.entropy_coeff is set"),
       needless(a + "entropy_from_logits_with_chunking", "the loss is computed in pieces, always"),
       needless(a + "entropy_checkpointing", "the loss is computed in pieces, always"),
       needless(a + "calculate_sum_pi_squared", "for the optimal token baseline only"),
       needless(a + "sum_pi_squared_checkpointing", "for the optimal token baseline only"),
       unsupported(a + "freeze_vision_tower", {"False", "True"}, "text only"),
       needless(
           a + "checkpoint.*",
           "a checkpoint always holds the weights as a Hugging Face folder, the optimizer and the position"),
       unsupported(a + "router_replay.*", {"disabled"}, "mixtures of experts are not there yet"),
       unsupported(a + "policy_loss.*", {},
                   "there is no such loss here: `trireme config explain actor.policy_loss`")});
  add_optim(rows, a + "optim.", "actor.optim.", "1e-6");
}

void add_reference(Rows& rows) {
  const std::string r = "actor_rollout_ref.ref.";
  rows.insert(
      rows.end(),
      {needless(r + "log_prob_micro_batch_size", kPacked),
       needless(r + "log_prob_micro_batch_size_per_gpu", kPacked),
       needless(r + "log_prob_use_dynamic_bsz", kPacked),
       needless(r + "log_prob_max_token_len_per_gpu", kPacked), needless(r + "rollout_n", "rollout.n"),
       unsupported(r + "load_weight", {"True"}, "the reference is the model at the start of the run"),
       needless(r + "strategy", "see reference.parallel"),
       needless(r + "use_torch_compile", "nothing is compiled at run time"),
       needless(r + "entropy_from_logits_with_chunking", "the loss is computed in pieces, always"),
       needless(r + "entropy_checkpointing", "the loss is computed in pieces, always"),
       needless(r + "use_prefix_grouper", "a prompt is computed once for all its samples, always"),
       unsupported(r + "router_replay.*", {"disabled"}, "mixtures of experts are not there yet"),
       unsupported(r + "model.path", {}, "the reference is the model at the start of the run")});
}

void add_critic(Rows& rows) {
  const std::string c = "critic.";
  rows.insert(
      rows.end(),
      {same(c + "ppo_mini_batch_size"),
       same(c + "ppo_epochs"),
       same(c + "cliprange_value", "0.5"),
       same(c + "loss_agg_mode"),
       maps(c + "grad_clip", "critic.optim.grad_clip", "1.0"),
       maps(c + "optim.clip_grad", "critic.optim.grad_clip", ""),
       same(c + "model.path"),
       unsupported(c + "enable", {"True"}, "the estimator decides: gae has a critic, the others have none"),
       needless(c + "rollout_n", "rollout.n"),
       unsupported(c + "load_weight", {"True"}, "a critic begins with the weights of its checkpoint"),
       needless(c + "nccl_timeout", "`trireme run --stall-timeout SECONDS` is for all waiting"),
       needless(c + "model.override_config.moe_config.*", "mixtures of experts are not there yet"),
       unsupported(c + "model.lora.rank", {"0"}, "all weights are trained"),
       unsupported(c + "model.lora.*", {}, "all weights are trained"),
       unsupported(c + "shuffle", {"False"}, "mini-batches are cut in the order of the batch"),
       needless(c + "data_loader_seed", "run.seed gives all random numbers"),
       needless(c + "forward_micro_batch_size", "sequences are packed; the numbers are the same"),
       needless(c + "forward_micro_batch_size_per_gpu", "sequences are packed; the numbers are the same"),
       needless(c + "forward_max_token_len_per_gpu", "sequences are packed; the numbers are the same"),
       needless(c + "checkpoint.*", "a checkpoint always holds weights, optimizer and position"),
       needless(c + "model.tokenizer_path", "the tokenizer is the actor's"),
       needless(c + "model.trust_remote_code", "no Python code of a model is run"),
       needless(c + "model.use_shm", "weights are read in place"),
       needless(c + "model.use_remove_padding", "sequences are packed without padding, always"),
       needless(c + "model.enable_gradient_checkpointing", "model.enable_gradient_checkpointing is for both"),
       needless(c + "model.enable_activation_offload", "model.enable_activation_offload is for both"),
       unsupported(c + "model.external_lib", {},
                   "the model must be of a family that is built in (README, Models)"),
       unsupported(c + "model.override_config.*", {}, "write it into config.json in the critic's folder"),
       unsupported(c + "model.lora_rank", {"0"}, "all weights are trained"),
       unsupported(c + "model.tiled_mlp.*", {"False"}, "lower critic.ppo_max_token_len_per_rank"),
       needless(c + "model.tiled_mlp.num_shards", "see critic.model.tiled_mlp.enabled")});
  add_optim(rows, c + "optim.", "critic.optim.", "1e-5");
}

void add_engines(Rows& rows) {
  const std::string with_params = "a gradient's memory is given back with ROLE.param_offload";
  const auto offload = [&](const std::string& engine, const std::string& role) {
    const std::string only_read = "what is only read has no optimizer";
    if (role.empty())
      rows.push_back(needless(engine + "param_offload", "see reward_model"));
    else
      rows.push_back(maps(engine + "param_offload", role + ".param_offload"));
    if (role == "actor" || role == "critic")
      rows.push_back(maps(engine + "optimizer_offload", role + ".optimizer_offload"));
    else
      rows.push_back(needless(engine + "optimizer_offload", only_read));
    rows.push_back(needless(engine + "grad_offload", with_params));
  };
  for (const auto& [fsdp, role] :
       {std::pair<std::string, std::string>{"actor_rollout_ref.actor.fsdp_config.", "actor"},
        {"actor_rollout_ref.ref.fsdp_config.", "reference"},
        {"critic.model.fsdp_config.", "critic"},
        {"critic.fsdp.", "critic"},
        {"critic.fsdp_config.", "critic"},
        {"reward_model.model.fsdp_config.", ""}}) {
    offload(fsdp, role);
    rows.insert(rows.end(),
                {needless(fsdp + "offload_policy", "see ROLE.param_offload and ROLE.optimizer_offload"),
                 needless(fsdp + "model_dtype", "masters, gradients and sums are fp32, always"),
                 needless(fsdp + "seed", "run.seed gives all random numbers"),
                 needless(fsdp + "full_determinism", "the same seed gives the same numbers, always"),
                 needless(fsdp + "*", "how FSDP cuts and moves weights; see ROLE.parallel")});
  }
  for (const auto& [megatron, role] :
       {std::pair<std::string, std::string>{"actor_rollout_ref.actor.megatron.", "actor"},
        {"actor_rollout_ref.ref.megatron.", "reference"},
        {"critic.megatron.", "critic"}}) {
    offload(megatron, role);
    rows.insert(
        rows.end(),
        {unsupported(megatron + "virtual_pipeline_model_parallel_size", {},
                     "a stage has one piece of the model (ROLE.parallel.pp)"),
         unsupported(megatron + "expert_model_parallel_size", {"1"}, "mixtures of experts are not there yet"),
         unsupported(megatron + "expert_tensor_parallel_size", {"1"},
                     "mixtures of experts are not there yet"),
         unsupported(megatron + "use_dist_checkpointing", {"False"},
                     "checkpoints are Hugging Face folders: convert Megatron's first"),
         unsupported(megatron + "dist_checkpointing_path", {}, "checkpoints are Hugging Face folders"),
         needless(megatron + "dist_checkpointing_prefix", "checkpoints are Hugging Face folders"),
         needless(megatron + "override_transformer_config.recompute_granularity",
                  "see model.enable_gradient_checkpointing"),
         needless(megatron + "*", "how Megatron arranges its computation; the numbers are the same")});
  }
  for (const char* role : {"actor_rollout_ref.actor.", "actor_rollout_ref.ref.", "actor_rollout_ref.rollout.",
                           "critic.", "reward_model.", "reward.reward_model."})
    rows.push_back(needless(std::string(role) + "profiler.*",
                            "every stage is timed, always; profile the ranks with the system's tools"));
}

}  // namespace trireme::verl::table
