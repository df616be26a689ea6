// algorithm.*, rewards, trainer.* and what belongs to Ray
#include "launcher/verl/rows.h"

namespace trireme::verl::table {

void add_algorithm(Rows& rows) {
  const std::string c = "algorithm.rollout_correction.";
  rows.insert(
      rows.end(),
      {same("algorithm.adv_estimator", "gae", {{"grpo_vectorized", "grpo"}, {"rloo_vectorized", "rloo"}}),
       same("algorithm.gamma", "1.0"),
       same("algorithm.lam", "1.0"),
       same("algorithm.norm_adv_by_std_in_grpo", "True"),
       same("algorithm.use_kl_in_reward", "False"),
       same("algorithm.kl_penalty", "kl"),
       same("algorithm.kl_ctrl.type", "fixed"),
       same("algorithm.kl_ctrl.kl_coef", "0.001"),
       same("algorithm.kl_ctrl.horizon", "10000"),
       same("algorithm.kl_ctrl.target_kl", "0.1"),
       same("algorithm.filter_groups.enable", "False"),
       same("algorithm.filter_groups.metric"),
       same("algorithm.filter_groups.max_num_gen_batches", "0"),
       same(c + "rollout_is"),
       same(c + "rollout_rs"),
       same(c + "rollout_rs_threshold"),
       same(c + "bypass_mode", "False"),
       unsupported(c + "loss_type", {"ppo_clip"}, "the policy loss is actor.policy_loss.loss_mode"),
       unsupported(c + "rollout_is_batch_normalize", {"False"}, "weights are taken as they are"),
       unsupported(c + "*", {}, "see `trireme config explain algorithm.rollout_correction`"),
       unsupported("algorithm.use_pf_ppo", {"False"}, "leave it out: responses are not weighed again"),
       unsupported("algorithm.pf_ppo.*", {}, "leave it out: responses are not weighed again"),
       unsupported("algorithm.*", {}, "there is no such part of an algorithm here")});
}

void add_reward(Rows& rows) {
  const char* const rule = "the reward is a rule or a function here (`trireme config explain reward`)";
  rows.insert(
      rows.end(),
      {maps("reward_model.model.path", "reward_model.path"),
       unsupported("reward_model.model.external_lib", {}, "the model is computed by the decoder here"),
       unsupported("reward_model.model.trust_remote_code", {"False"}, "code of a checkpoint is not run"),
       needless("reward_model.model.*", "the model is computed by the decoder here"),
       maps("reward_model.rollout.tensor_model_parallel_size", "reward_model.parallel.tp"),
       needless("reward_model.rollout.*", "the model is computed by the decoder here, not served"),
       maps("reward_model.forward_max_token_len_per_gpu", "reward_model.max_token_len_per_rank"),
       maps("reward_model.ulysses_sequence_parallel_size", "reward_model.parallel.cp"),
       unsupported("reward_model.enable_resource_pool", {"False"},
                   "name the model's ranks in placement.reward_model"),
       needless("reward_model.reward_kwargs.max_resp_len", "data.max_response_length"),
       needless("reward_model.reward_kwargs.overlong_buffer_cfg.log", "the penalty is part of the reward"),
       needless("reward_model.overlong_buffer.log", "the penalty is part of the reward"),
       unsupported("reward_model.reward_kwargs.*", {}, rule),
       needless("reward_model.sandbox_fusion.url",
                "programs run in a sandbox on each machine, made by bubblewrap"),
       maps("reward_model.sandbox_fusion.memory_limit_mb", "reward.code.memory_limit_mb"),
       needless("reward_model.sandbox_fusion.*",
                "each rank runs its own programs: reward.code.max_concurrent"),
       unsupported("reward_model.reward_loop_module_path", {}, rule),
       unsupported("reward_model.reward_loop_class_name", {}, rule),
       unsupported("reward_model.reward_manager", {"naive", "dapo", "batch", "prime"}, rule),
       needless("reward_model.*", "the model is computed by the decoder here, not served"),
       needless("sandbox_fusion.url", "programs run in a sandbox on each machine, made by bubblewrap"),
       maps("sandbox_fusion.memory_limit_mb", "reward.code.memory_limit_mb"),
       needless("sandbox_fusion.*", "each rank runs its own programs: reward.code.max_concurrent"),
       unsupported("reward_manager.name", {"naive", "dapo", "batch", "prime"}, rule),
       unsupported("reward_manager.module.path", {}, rule),
       needless("reward_manager.*", "see reward_manager.name"),
       maps("reward.reward_model.model_path", "reward_model.path"),
       maps("reward.reward_model.rollout.tensor_model_parallel_size", "reward_model.parallel.tp"),
       unsupported("reward.reward_model.enable_resource_pool", {"False"},
                   "name the model's ranks in placement.reward_model"),
       needless("reward.reward_model.*", "the model is computed by the decoder here, not served"),
       unsupported("reward.reward_manager.name", {"naive", "dapo", "batch", "prime"}, rule),
       unsupported("reward.reward_manager.module.path", {}, rule),
       needless("reward.reward_manager.*", "see reward_manager.name"),
       needless("reward.sandbox_fusion.url", "programs run in a sandbox on each machine, made by bubblewrap"),
       maps("reward.sandbox_fusion.memory_limit_mb", "reward.code.memory_limit_mb"),
       needless("reward.sandbox_fusion.*", "each rank runs its own programs: reward.code.max_concurrent"),
       needless("reward.reward_kwargs.max_resp_len", "data.max_response_length"),
       needless("reward.reward_kwargs.overlong_buffer_cfg.log", "the penalty is part of the reward"),
       unsupported("reward.reward_kwargs.*", {}, rule),
       needless("reward.num_workers", "each rank has scorers of its own: reward.scorer.num_workers")});
  for (const std::string function : {"custom_reward_function.", "reward.custom_reward_function."}) {
    rows.push_back(maps(function + "path", "reward.function.path"));
    rows.push_back(maps(function + "name", "reward.function.name", "compute_score"));
  }
  for (const char* buffer : {"reward_model.reward_kwargs.overlong_buffer_cfg.",
                             "reward_model.overlong_buffer.", "reward.reward_kwargs.overlong_buffer_cfg."})
    for (const char* leaf : {"enable", "len", "penalty_factor"})
      rows.push_back(maps(std::string(buffer) + leaf, std::string("algorithm.overlong_buffer.") + leaf));
}

void add_trainer(Rows& rows) {
  const std::string t = "trainer.";
  const char* const ray = "there is no Ray: Open MPI starts one process per GPU";
  rows.insert(
      rows.end(),
      {same(t + "total_epochs", "30"),
       same(t + "total_training_steps"),
       same(t + "save_freq", "-1", {}, "the last step is always saved"),
       same(t + "test_freq", "-1"),
       same(t + "val_before_train", "True"),
       same(t + "critic_warmup", "0"),
       maps(t + "experiment_name", "run.name", "", {}, "the run's folder is this name with the date"),
       maps(t + "max_actor_ckpt_to_keep", "trainer.max_checkpoints_to_keep"),
       maps(t + "device", "run.device", "", {{"npu", "npu"}}),
       needless(t + "max_critic_ckpt_to_keep",
                "actor and critic are saved together: max_checkpoints_to_keep"),
       needless(t + "logger",
                "the console, metrics.jsonl and TensorBoard files, always; wandb is not written"),
       same(t + "log_val_generations", "", {}, "problems here, responses in verl"),
       unsupported(t + "rollout_data_dir", {}, "texts are not written; `trireme generate` answers prompts"),
       needless(t + "validation_data_dir",
                "samples/ of the run's folder has them; `trireme samples` shows them"),
       needless(t + "balance_batch", "sequences are shared out by cost, always"),
       unsupported(t + "val_only", {"False"},
                   "set trainer.total_training_steps = 1 and read the first evaluation"),
       unsupported(t + "default_hdfs_dir", {}, "copy the run folder after the run"),
       needless(t + "del_local_ckpt_after_load", "see trainer.max_checkpoints_to_keep"),
       needless(t + "esi_redundant_time", "`trireme run` writes a checkpoint when it is asked to stop"),
       needless(t + "ray_wait_register_center_timeout", ray),
       needless(t + "use_legacy_worker_impl", "there is one trainer"),
       needless(t + "use_v1", "there is one trainer"),
       unsupported(t + "v1.trainer_mode", {"sync"}, "steps are synchronous"),
       needless(t + "v1.*", "there is one trainer"),
       needless(t + "remove_previous_ckpt_in_save", "see trainer.max_checkpoints_to_keep"),
       needless(t + "npu_profile.*", "every stage is timed, always"),
       needless(t + "profile_steps", "every stage is timed, always"),
       needless(t + "worker_nsight_options.*", "profile the ranks with the system's tools"),
       needless(t + "controller_nsight_options.*", "profile the ranks with the system's tools"),
       needless("global_profiler.*",
                "every stage is timed, always; profile the ranks with the system's tools"),
       needless("ray_kwargs.*", ray),
       needless("ray_init.*", ray),
       unsupported("transfer_queue.enable", {"False"}, "data goes from rank to rank"),
       needless("transfer_queue.*", "data goes from rank to rank"),
       needless("hydra.*", "the run's folder is run.output_dir"),
       needless("defaults", "verl's defaults are known"),
       unsupported("async_training.*", {},
                   "rollout.steps_ahead says how far rollout goes ahead, in whole batches; rollout.stream learns from "
                   "mini-batches as they finish"),
       unsupported("rollout.*", {},
                   "belongs to verl's fully asynchronous trainer; see rollout.steps_ahead and rollout.stream")});
}

}  // namespace trireme::verl::table
