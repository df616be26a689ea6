set -xeuo pipefail

DATA=(
  data.train_files=data/train.parquet
  data.val_files=data/test.parquet
  data.max_prompt_length=2048
  data.max_response_length=4096
  data.train_batch_size=128
  data.truncation=left
  algorithm.adv_estimator=rloo
  algorithm.gamma=1.0
  algorithm.rollout_correction.rollout_is=sequence
  algorithm.rollout_correction.rollout_is_threshold=2.0
  algorithm.rollout_correction.rollout_is_batch_normalize=true
  algorithm.rollout_correction.rollout_rs=null
  algorithm.rollout_correction.rollout_rs_threshold=null
)
REST=(
  algorithm.rollout_correction.bypass_mode=true
  algorithm.rollout_correction.loss_type=reinforce
  actor_rollout_ref.model.path=Qwen/Qwen2.5-7B
  actor_rollout_ref.actor.optim.lr=5e-7
  actor_rollout_ref.actor.ppo_mini_batch_size=32
  actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8
  actor_rollout_ref.actor.ppo_epochs=1
  actor_rollout_ref.rollout.calculate_log_probs=True
  actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8
  actor_rollout_ref.rollout.name=vllm
  trainer.logger='["console","wandb"]'
  trainer.project_name=rollout_corr_rloo_example
  trainer.experiment_name=rloo_seq_is_pure
  trainer.total_epochs=10
)

python3 -m verl.trainer.main_ppo "${DATA[@]}" "${REST[@]}" "$@"
