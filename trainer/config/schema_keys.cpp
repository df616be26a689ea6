// The table itself. To add a key: one field in the struct that owns it, one entry here, then
// `trireme docs configuration > docs/configuration.md`.
#include <fmt/format.h>

#include "trainer/algorithms/estimator_config.h"
#include "trainer/config/schema_rules.h"

namespace trireme::config {
namespace {

void add_run(Keys& k) {
  k.push_back({"run.name", AT(run.name), any(), "",
               "Name of the run's folder under run.output_dir; empty takes the configuration file's name. "
               "Name runs whose overrides differ.",
               "trainer.experiment_name"});
  k.push_back({"run.output_dir", AT(run.output_dir), any(), "",
               "Run folders (logs, metrics, checkpoints) are made in here; put it on a disk with room for "
               "the checkpoints.",
               "trainer.default_local_dir"});
  k.push_back({"run.seed", AT(run.seed), at_least(0), "",
               "Everything random in the run follows from it: order of the data, sampling, random weights. "
               "The same seed on the same kind of device gives the same numbers.",
               "data.seed, rollout.seed"});
  k.push_back({"run.ranks", AT(run.ranks), between(0, 65536), "ranks",
               "Processes to start; 0 starts one per GPU, or one where there is no GPU. More ranks make a "
               "step faster, the results are those of the same batch.",
               "trainer.n_gpus_per_node, trainer.nnodes"});
  k.push_back({"run.threads_per_rank", AT(run.threads_per_rank), between(0, 4096), "threads",
               "Threads that compute in one rank; 0 shares this machine's cores out evenly. Lower it where "
               "other programs need cores."});
  k.push_back({"run.device", AT(run.device), one_of({"auto", "cpu", "cuda"}), "",
               "Where tensors live; auto takes the GPUs where there are any. Set cpu to leave a GPU alone.",
               "trainer.device"});
  k.push_back({"run.log_level", AT(run.log_level), one_of({"debug", "info", "warn", "error"}), "",
               "The least serious message that is still written to logs/rank-N.log; debug when something is "
               "to be found out."});
  add_offload_folder(k);
}

void add_placement(Keys& k) {
  k.push_back({"placement.actor", AT(placement.actor), any(), "",
               "Ranks that train the policy, as in \"0-3,6\"; empty means all. Set it together with "
               "placement.rollout to train and generate on different GPUs."});
  k.push_back({"placement.critic", AT(placement.critic), any(), "",
               "Ranks that learn values (only where algorithm.adv_estimator = \"gae\"); empty means all."});
  k.push_back({"placement.reference", AT(placement.reference), any(), "",
               "Ranks that compute the reference's log-probabilities (only where a KL term needs them); "
               "empty means all."});
  k.push_back({"placement.rollout", AT(placement.rollout), any(), "",
               "Ranks that generate responses; empty means all. Ranks that have both this role and the "
               "actor's share one copy of the weights."});
  k.push_back({"placement.reward_model", AT(placement.reward_model), any(), "",
               "Ranks that judge with the reward model (only where reward_model.path names one); empty means "
               "all."});
}

// What the roles that read or train packed sequences share.
void add_pipeline(Keys& k, const std::string& role, const std::string& model, Field pp, Field cp) {
  const std::string verl = role == "reference" ? "ref" : role;
  k.push_back(
      {role + ".parallel.pp", pp, between(1, 1024), "ranks",
       fmt::format("Pipeline parallelism: ranks that each hold some of the {}'s layers. {}", model,
                   role == "actor"
                       ? "At most as many as there are layers, and zero_stage 2 at most. Micro-batches of "
                         "ppo_max_token_len_per_rank follow each other through the stages: let a "
                         "mini-batch have several times pp of them."
                       : "See actor.parallel.pp."),
       verl + ".megatron.pipeline_model_parallel_size"});
  k.push_back(
      {role + ".parallel.cp", cp, between(1, 1024), "ranks",
       fmt::format(
           "Context parallelism: ranks that each compute some rows of every sequence of the {}. {}", model,
           role == "actor" ? "For sequences whose activations do not fit: a forward pass takes cp times "
                             "ppo_max_token_len_per_rank tokens. Where cp divides a tp rank's heads "
                             "they are shared out in attention (as in DeepSpeed-Ulysses), else keys "
                             "and values come round (ring attention); log-probabilities are the same "
                             "bits as without."
                           : "See actor.parallel.cp."),
       verl + ".ulysses_sequence_parallel_size"});
}

void add_parallel(Keys& k) {
  k.push_back(
      {"actor.parallel.tp", AT(parallel.actor.tp), between(1, 1024), "ranks",
       "Ranks that hold one replica of the policy together (tensor parallelism); must divide its ranks, "
       "heads and MLP. 1 unless the model does not fit, or a replica should be faster.",
       "actor.megatron.tensor_model_parallel_size"});
  add_pipeline(k, "actor", "policy", AT(parallel.actor.pp), AT(parallel.actor.cp));
  k.push_back({"actor.parallel.zero_stage", AT(parallel.actor.zero_stage), between(0, 3), "",
               "What data-parallel ranks share out instead of each holding all: 1 the optimizer's state and "
               "masters, 2 gradients too, 3 weights too. Higher stages need less memory and more messages.",
               "actor.fsdp_config"});
  k.push_back({"actor.parallel.reduce", AT(parallel.actor.reduce), one_of({"fast", "exact"}), "",
               "How gradients are summed over data-parallel ranks. exact gives the same bits for any number "
               "of them, and for any ppo_max_token_len_per_rank, at the same tp and cp, but trains group by "
               "group and is slower."});
  k.push_back({"critic.parallel.tp", AT(parallel.critic.tp), between(1, 1024), "ranks",
               "Ranks that hold one replica of the critic together.",
               "critic.megatron.tensor_model_parallel_size"});
  add_pipeline(k, "critic", "critic", AT(parallel.critic.pp), AT(parallel.critic.cp));
  k.push_back({"critic.parallel.zero_stage", AT(parallel.critic.zero_stage), between(0, 3), "",
               "What the critic's data-parallel ranks share out; see actor.parallel.zero_stage.",
               "critic.fsdp"});
  k.push_back({"critic.parallel.reduce", AT(parallel.critic.reduce), one_of({"fast", "exact"}), "",
               "How the critic's gradients are summed; see actor.parallel.reduce."});
  add_reference_offload(k);
  k.push_back({"reference.parallel.tp", AT(parallel.reference.tp), between(1, 1024), "ranks",
               "Ranks that hold one replica of the reference together.",
               "ref.megatron.tensor_model_parallel_size"});
  add_pipeline(k, "reference", "reference", AT(parallel.reference.pp), AT(parallel.reference.cp));
  k.push_back({"reward_model.parallel.tp", AT(parallel.reward_model.tp), between(1, 1024), "ranks",
               "Ranks that hold one replica of the reward model together.",
               "reward.reward_model.rollout.tensor_model_parallel_size"});
  add_pipeline(k, "reward_model", "reward model", AT(parallel.reward_model.pp), AT(parallel.reward_model.cp));
  k.push_back({"rollout.parallel.tp", AT(parallel.rollout.tp), between(1, 1024), "ranks",
               "Ranks that hold one replica of the model together to generate with. With the actor's own tp "
               "(and zero_stage below 3) colocated ranks share one copy of the weights, and the sampler's "
               "log-probabilities are the actor's own.",
               "rollout.tensor_model_parallel_size"});
  k.push_back({"rollout.parallel.pp", AT(parallel.rollout.pp), between(1, 1024), "ranks",
               "1: a replica that generates computes all layers on each of its ranks. See "
               "actor.parallel.pp for training.",
               "rollout.pipeline_model_parallel_size"});
  k.push_back({"rollout.parallel.cp", AT(parallel.rollout.cp), between(1, 1024), "ranks",
               "1: a rank that generates computes whole sequences. See actor.parallel.cp for training."});
}

void add_data(Keys& k) {
  k.push_back({"data.task", AT(data.task), one_of({"files", "arithmetic"}), "",
               "files reads data.train_files; arithmetic generates word problems from run.seed (the "
               "quickstart's task, see [data.arithmetic])."});
  k.push_back(
      {"data.train_files", AT(data.train_files), any(), "",
       "Files to train on: Parquet (verl's columns as they are), JSONL, or JSON with one array of objects; "
       "several of them, of any of these formats. Needed where data.task = \"files\"."});
  k.push_back({"data.val_files", AT(data.val_files), any(), "",
               "Files to evaluate on, never trained on; empty holds back data.val_fraction of the training "
               "problems."});
  k.push_back(
      {"data.format", AT(data.format), one_of({"auto", "jsonl", "parquet"}), "",
       "How the files are written; auto goes by each file's ending: .parquet, .jsonl, .ndjson, .json."});
  k.push_back(
      {"data.prompt_key", AT(data.prompt_key), any(), "",
       "The column with the prompt: a string, or a list of {role, content} messages. \"question\" "
       "for GSM8K's own files. Dots lead into nested columns, here and in the other keys of columns."});
  k.push_back({"data.answer_key", AT(data.answer_key), any(), "",
               "The column with the ground truth that the reward compares with; of a worked solution, what "
               "follows its last ####. Left at its default, rows that have reward_model.ground_truth are "
               "judged by that, so verl's files need no setting.",
               "reward_model.ground_truth"});
  add_preference_columns(k);
  k.push_back({"data.prompt_template", AT(data.prompt_template), any(), "",
               "Text around each prompt; {prompt} is replaced by it. The place for instructions such as how "
               "to write the final answer. Of a conversation it is put around the last user message."});
  k.push_back({"data.apply_chat_template", AT(data.apply_chat_template), one_of({"auto", "always", "never"}),
               "",
               "What is written as text by the chat template of the tokenizer's folder: auto conversations "
               "(lists of messages; a last message of the assistant is continued), always plain prompts too, "
               "each as one user message; never takes single user messages as plain text."});
  k.push_back({"data.chat_template_kwargs", AT(data.chat_template_kwargs), any(), "",
               "A JSON object of more variables that the chat template may ask for, as in "
               "'{\"enable_thinking\": false}'.",
               "data.apply_chat_template_kwargs"});
  k.push_back({"data.train_batch_size", AT(data.train_batch_size), between(1, 1 << 24), "prompts",
               "Prompts per step, each answered rollout.n times; of dpo, pairs. Larger is steadier, and "
               "slower per step."});
  k.push_back(
      {"data.max_prompt_length", AT(data.max_prompt_length), between(1, 1 << 24), "tokens",
       "Longest prompt that is accepted; see data.filter_overlong_prompts and data.truncation for longer "
       "ones."});
  k.push_back(
      {"data.max_response_length", AT(data.max_response_length), between(1, 1 << 24), "tokens",
       "Generation stops here; raise it when response_length/clip_ratio says that many responses are cut."});
  k.push_back({"data.train_max_samples", AT(data.train_max_samples), positive_or(-1), "problems",
               "Uses only that many training problems, the first of the files, for trials; -1 uses all."});
  k.push_back(
      {"data.val_max_samples", AT(data.val_max_samples), positive_or(-1), "problems",
       "Evaluates on only that many problems; -1 uses all. Lower it when evaluation takes too long."});
  k.push_back({"data.val_fraction", AT(data.val_fraction), from_below(0, 1), "of the problems",
               "Share of the training problems held back for evaluation where data.val_files is empty."});
  k.push_back(
      {"data.shuffle", AT(data.shuffle), any(), "",
       "Draws a new order of the problems for every epoch (from run.seed); false keeps the files' order."});
  k.push_back({"data.filter_overlong_prompts", AT(data.filter_overlong_prompts), any(), "",
               "Drops prompts above data.max_prompt_length, before training and evaluation; false goes by "
               "data.truncation."});
  k.push_back({"data.truncation", AT(data.truncation), one_of({"error", "left", "right", "middle"}), "",
               "What becomes of prompts above data.max_prompt_length that are not dropped: error names their "
               "places; left cuts off their beginning, right their end, middle keeps both ends."});
  k.push_back({"data.arithmetic.min_operand", AT(data.arithmetic.min_operand), between(0, 999), "",
               "Smallest number in a problem."});
  k.push_back({"data.arithmetic.max_operand", AT(data.arithmetic.max_operand), between(0, 999), "",
               "Largest number in a problem; larger numbers take longer to learn."});
  k.push_back({"data.arithmetic.held_out_fraction", AT(data.arithmetic.held_out_fraction),
               Rule{.min = 0, .max = 1, .above_min = true, .below_max = true}, "of the pairs",
               "Share of the unordered pairs of operands that training never sees, in either order."});
  k.push_back({"data.arithmetic.num_val", AT(data.arithmetic.num_val), at_least(1), "problems",
               "Held-out problems to evaluate on; more make the accuracy surer, and evaluation slower."});
}

std::vector<std::string> estimator_names() {
  std::vector<std::string> names;
  for (const auto& estimator : algorithms::kEstimators) names.emplace_back(estimator.name);
  return names;
}

// Names of KL estimates; with "+" behind, k2's gradient.
std::vector<std::string> kl_names() {
  return {"kl",  "k1",  "abs",  "mse",  "k2",  "low_var_kl",  "k3",
          "kl+", "k1+", "abs+", "mse+", "k2+", "low_var_kl+", "k3+"};
}

void add_algorithm(Keys& k) {
  k.push_back(
      {"algorithm.name", AT(algorithm.name), one_of({"rl", "grpo", "rft", "sft", "dpo"}), "",
       "How the run trains: rl (reinforcement learning with the advantages of algorithm.adv_estimator "
       "and the loss of actor.policy_loss.loss_mode), grpo (the same, where adv_estimator must be "
       "grpo), rft (rejection sampling fine-tuning: what the reward accepts is learned, see [rft]), sft "
       "(supervised fine-tuning, see [sft]) or dpo (direct preference optimisation, see [algorithm.dpo])."});
  k.push_back(
      {"algorithm.adv_estimator", AT(algorithm.adv_estimator), one_of(estimator_names()), "",
       "How a response's reward becomes its tokens' advantages. grpo, dr_grpo, rloo, opo, gpg, "
       "grpo_passk and reinforce_plus_plus_baseline compare it with the prompt's other responses, "
       "remax with the greedy response, reinforce_plus_plus with the whole batch, gae with a critic."});
  k.push_back(
      {"algorithm.norm_adv_by_std_in_grpo", AT(algorithm.norm_adv_by_std_in_grpo), any(), "",
       "Divides a group's advantages by its standard deviation (grpo, grpo_passk); false is Dr. GRPO, "
       "which does not favour prompts whose rewards hardly vary."});
  k.push_back({"algorithm.gamma", AT(algorithm.gamma), between(0, 1), "",
               "Discount of a reward for each token before it (reinforce_plus_plus, gae)."});
  k.push_back({"algorithm.lam", AT(algorithm.lam), between(0, 1), "",
               "How far gae looks ahead: 0 trusts the critic after one token, 1 goes to the end."});
  k.push_back({"algorithm.use_kl_in_reward", AT(algorithm.use_kl_in_reward), any(), "",
               "Subtracts algorithm.kl_ctrl.kl_coef times the KL to the reference from each token's reward. "
               "actor.use_kl_loss is GRPO's usual place for it."});
  k.push_back({"algorithm.kl_penalty", AT(algorithm.kl_penalty), one_of(kl_names()), "",
               "Estimator of that KL from the sampled tokens; see actor.kl_loss_type."});
  k.push_back({"algorithm.kl_ctrl.type", AT(algorithm.kl_ctrl.type), one_of({"fixed", "adaptive"}), "",
               "Whether the KL's weight stays, or follows the KL to algorithm.kl_ctrl.target_kl."});
  k.push_back({"algorithm.kl_ctrl.kl_coef", AT(algorithm.kl_ctrl.kl_coef), at_least(0), "",
               "Weight of the KL in the reward; with adaptive control, at the start."});
  k.push_back({"algorithm.kl_ctrl.horizon", AT(algorithm.kl_ctrl.horizon), above(0), "responses",
               "How slowly the weight adapts."});
  k.push_back({"algorithm.kl_ctrl.target_kl", AT(algorithm.kl_ctrl.target_kl), above(0), "nats per token",
               "The KL that an adaptive weight aims at."});
  k.push_back({"algorithm.filter_groups.enable", AT(algorithm.filter_groups.enable), any(), "",
               "Dynamic sampling (DAPO): prompts whose responses are all judged alike are left out, and more "
               "are generated until data.train_batch_size prompts are left."});
  k.push_back({"algorithm.filter_groups.metric", AT(algorithm.filter_groups.metric),
               one_of({"acc", "score", "seq_reward", "seq_final_reward"}), "",
               "What must differ: acc, whether the answer is right; the others, the score."});
  k.push_back({"algorithm.filter_groups.max_num_gen_batches", AT(algorithm.filter_groups.max_num_gen_batches),
               at_least(0), "batches",
               "The run ends with an error where a step needs more generated batches; 0 never does."});
  k.push_back({"algorithm.overlong_buffer.enable", AT(algorithm.overlong_buffer.enable), any(), "",
               "Responses that come near data.max_response_length lose reward (DAPO).",
               "reward.reward_kwargs.overlong_buffer_cfg.enable"});
  k.push_back({"algorithm.overlong_buffer.len", AT(algorithm.overlong_buffer.len), at_least(0), "tokens",
               "How far before data.max_response_length the loss begins, from where it grows linearly.",
               "reward.reward_kwargs.overlong_buffer_cfg.len"});
  k.push_back({"algorithm.overlong_buffer.penalty_factor", AT(algorithm.overlong_buffer.penalty_factor),
               at_least(0), "reward", "What a response of the longest length loses.",
               "reward.reward_kwargs.overlong_buffer_cfg.penalty_factor"});
  k.push_back({"algorithm.rollout_correction.rollout_is", AT(algorithm.rollout_correction.rollout_is),
               one_of({"auto", "none", "token", "sequence"}), "",
               "Importance weights for rollout that samples from another policy than the one that is trained "
               "(older by rollout.steps_ahead, on a GPU, in another precision): of each token, or of the whole "
               "response. On CPUs, without steps_ahead, both are the same, and all weights 1. auto takes token "
               "with steps_ahead, but not with bypass_mode, and none otherwise."});
  k.push_back({"algorithm.rollout_correction.rollout_is_threshold",
               AT(algorithm.rollout_correction.rollout_is_threshold), above(0), "",
               "Weights above this become this (truncated importance sampling)."});
  k.push_back({"algorithm.rollout_correction.rollout_is_threshold_low",
               AT(algorithm.rollout_correction.rollout_is_threshold_low), at_least(0), "",
               "Above 0: weights below this or above rollout_is_threshold become 0 instead (masked).",
               "algorithm.rollout_correction.rollout_is_threshold = \"LOW_HIGH\""});
  k.push_back(
      {"algorithm.rollout_correction.rollout_rs", AT(algorithm.rollout_correction.rollout_rs), any(), "",
       "Which tokens or responses are left out of the loss, by how far rollout's log-probabilities are "
       "from the policy's: a list of token_k1, seq_sum_k1, seq_mean_k1, the same with k2 and k3, "
       "seq_max_k2, seq_max_k3; empty leaves none out."});
  k.push_back({"algorithm.rollout_correction.rollout_rs_threshold",
               AT(algorithm.rollout_correction.rollout_rs_threshold), any(), "",
               "For each of them, or once for all, where it begins: LOWER_UPPER of the ratio for k1 (UPPER "
               "alone takes its inverse for the other), UPPER for k2 and k3."});
  k.push_back(
      {"algorithm.rollout_correction.bypass_mode", AT(algorithm.rollout_correction.bypass_mode), any(), "",
       "Takes rollout's log-probabilities for the old policy's where they differ, and saves a forward."});
}

template <typename Optim>
void add_optim(Keys& k, const std::string& table, const std::string& verl,
               Optim /* RunConfig& -> OptimConfig& */) {
#define IN_OPTIM(member)       \
  [](RunConfig & c) -> auto& { \
    return Optim{}(c).member;  \
  }
  k.push_back({table + ".lr", IN_OPTIM(lr), at_least(0), "",
               "AdamW's peak learning rate. About 1e-6 for reinforcement learning of a pretrained model, "
               "1e-5 for its fine-tuning, 1e-4 to 1e-3 for a tiny model from random weights. The first thing "
               "to lower when a run collapses."});
  k.push_back({table + ".beta1", IN_OPTIM(beta1), from_below(0, 1), "",
               "Decay of AdamW's average of the gradient.", verl + ".betas[0]"});
  k.push_back({table + ".beta2", IN_OPTIM(beta2), from_below(0, 1), "",
               "Decay of AdamW's average of the squared gradient; lower (0.95) follows changes faster.",
               verl + ".betas[1]"});
  k.push_back({table + ".eps", IN_OPTIM(eps), above(0), "",
               "Added to AdamW's denominator, so that weights without gradient stay put."});
  k.push_back({table + ".weight_decay", IN_OPTIM(weight_decay), at_least(0), "",
               "Decoupled weight decay, times the learning rate, at every update."});
  k.push_back({table + ".grad_clip", IN_OPTIM(grad_clip), at_least(0), "",
               "Scales the gradient down to this global norm where it is larger; 0 never does.",
               verl + ".clip_grad"});
  k.push_back({table + ".lr_warmup_steps", IN_OPTIM(lr_warmup_steps), at_least(0), "steps",
               "The learning rate rises linearly over these first steps; all updates of a step have the "
               "step's."});
  k.push_back({table + ".lr_scheduler_type", IN_OPTIM(lr_scheduler_type),
               one_of({"constant", "linear", "cosine"}), "",
               "How the learning rate goes on after the warm-up, until the last step."});
  k.push_back({table + ".min_lr_ratio", IN_OPTIM(min_lr_ratio), between(0, 1), "of lr",
               "What linear and cosine end at."});
#undef IN_OPTIM
}

void add_actor(Keys& k) {
  k.push_back({"actor.ppo_mini_batch_size", AT(actor.ppo_mini_batch_size), at_least(0), "prompts",
               "Prompts per optimizer update; must divide data.train_batch_size, and 0 takes all of it (one "
               "update per step, fully on-policy). Smaller makes more updates of each batch."});
  k.push_back({"actor.ppo_epochs", AT(actor.ppo_epochs), between(1, 1000), "passes",
               "Passes over each batch; more than 1 learns more from each sample, at the price of being "
               "off-policy."});
  k.push_back({"actor.ppo_max_token_len_per_rank", AT(actor.ppo_max_token_len_per_rank), between(1, 1 << 28),
               "tokens",
               "Tokens of one forward and backward on one rank; sequences are packed up to it, times "
               "actor.parallel.cp, whatever it is the result is the same. Lower it when memory runs out.",
               "actor.ppo_max_token_len_per_gpu"});
  k.push_back({"actor.clip_ratio_low", AT(actor.loss.clip_ratio_low), between(0, 1), "",
               "The probability ratio is clipped below 1 - this."});
  k.push_back({"actor.clip_ratio_high", AT(actor.loss.clip_ratio_high), at_least(0), "",
               "The probability ratio is clipped above 1 + this; larger than clip_ratio_low (0.28) keeps "
               "entropy up."});
  k.push_back({"actor.clip_ratio_c", AT(actor.loss.clip_ratio_c), above(1), "",
               "Dual clip: bounds the loss at this many times a negative advantage."});
  k.push_back({"actor.loss_agg_mode", AT(actor.loss.loss_agg_mode),
               one_of({"token-mean", "token-sum", "seq-mean-token-sum", "seq-mean-token-mean",
                       "seq-mean-token-sum-norm"}),
               "",
               "How tokens' losses become one number, over the whole mini-batch: token-mean weighs all "
               "tokens alike, seq-mean-token-mean all responses, the sums grow with length. gspo, sapo and "
               "geo_mean are defined with seq-mean-token-mean."});
  k.push_back({"actor.loss_scale_factor", AT(actor.loss.loss_scale_factor), at_least(0), "tokens",
               "What seq-mean-token-sum-norm divides by; 0: data.max_response_length."});
  k.push_back({"actor.entropy_coeff", AT(actor.loss.entropy_coeff), any(), "",
               "Weight of the entropy bonus; a small positive value (0.001) keeps sampling varied."});
  k.push_back({"actor.use_kl_loss", AT(actor.loss.use_kl_loss), any(), "",
               "Adds the KL to the reference (the model at the start of the run) to the loss; costs a second "
               "copy of the weights and a forward per step."});
  k.push_back({"actor.kl_loss_coef", AT(actor.loss.kl_loss_coef), at_least(0), "",
               "Weight of that KL; larger stays closer to the reference."});
  k.push_back({"actor.kl_loss_type", AT(actor.loss.kl_loss_type), one_of(kl_names()), "",
               "Estimator of the KL from the sampled tokens: kl (or k1), abs, mse (k2) or low_var_kl (k3), "
               "which is never negative and varies least. With + behind, the value stays and the gradient is "
               "k2's, which is right on average."});
  k.push_back(
      {"actor.use_bias_correction_kl", AT(actor.loss.use_bias_correction_kl), any(), "",
       "Multiplies each token's KL by the ratio to the old policy, with its gradient: right on average "
       "off-policy too, and in its gradient (TRL's default)."});
  std::vector<std::string> modes(std::begin(losses::kLossModes), std::end(losses::kLossModes));
  add_actor_offload(k);
  k.push_back(
      {"actor.policy_loss.loss_mode", AT(actor.loss.loss_mode), one_of(std::move(modes)), "",
       "The objective of a token: vanilla (PPO's clip), gspo (the clip of whole responses), cispo and "
       "sapo (which keep every token's gradient), geo_mean, clip_cov and kl_cov (which hold back the "
       "tokens of a micro-batch that cost most entropy), gpg (no ratio at all)."});
  k.push_back({"actor.policy_loss.tau_pos", AT(actor.loss.tau_pos), above(0), "",
               "sapo: how sharply a ratio is held near 1 where the advantage is above 0.", "actor.tau_pos"});
  k.push_back({"actor.policy_loss.tau_neg", AT(actor.loss.tau_neg), above(0), "",
               "sapo: the same for the others.", "actor.tau_neg"});
  k.push_back({"actor.policy_loss.clip_cov_ratio", AT(actor.loss.clip_cov_ratio), above_to(0, 1), "of tokens",
               "clip_cov: how many tokens get no gradient."});
  k.push_back({"actor.policy_loss.clip_cov_lb", AT(actor.loss.clip_cov_lb), any(), "",
               "clip_cov: chosen among tokens whose covariance is above this ..."});
  k.push_back(
      {"actor.policy_loss.clip_cov_ub", AT(actor.loss.clip_cov_ub), any(), "", "... and below this."});
  k.push_back({"actor.policy_loss.kl_cov_ratio", AT(actor.loss.kl_cov_ratio), above_to(0, 1), "of tokens",
               "kl_cov: how many tokens, those of the greatest covariance, are held near the old policy."});
  k.push_back({"actor.policy_loss.ppo_kl_coef", AT(actor.loss.ppo_kl_coef), at_least(0), "",
               "kl_cov: how strongly."});
  add_optim(k, "actor.optim", "actor.optim", AT(actor.optim));
}

void add_critic(Keys& k) {
  k.push_back({"critic.model.path", AT(critic.path), any(), "",
               "Folder of the Hugging Face checkpoint that the critic begins with: a language model's (its "
               "head is replaced by one number a token, drawn from run.seed), or a token or sequence "
               "classifier's with one label. Empty takes the actor's, as the algorithm begins."});
  k.push_back({"critic.ppo_mini_batch_size", AT(critic.ppo_mini_batch_size), at_least(0), "prompts",
               "Prompts per update of the critic; 0 takes actor.ppo_mini_batch_size."});
  k.push_back({"critic.ppo_epochs", AT(critic.ppo_epochs), between(0, 1000), "passes",
               "The critic's passes over each batch; 0 takes actor.ppo_epochs."});
  k.push_back({"critic.ppo_max_token_len_per_rank", AT(critic.ppo_max_token_len_per_rank),
               between(1, 1 << 28), "tokens",
               "Tokens of one forward and backward of the critic on one rank; see "
               "actor.ppo_max_token_len_per_rank.",
               "critic.ppo_max_token_len_per_gpu"});
  k.push_back({"critic.cliprange_value", AT(critic.cliprange_value), above(0), "reward",
               "A value that moved further than this from the one before the step's updates has no gradient "
               "that takes it further."});
  k.push_back({"critic.loss_agg_mode", AT(critic.loss_agg_mode),
               one_of({"actor", "token-mean", "token-sum", "seq-mean-token-sum", "seq-mean-token-mean",
                       "seq-mean-token-sum-norm"}),
               "", "How tokens' losses become one number, see actor.loss_agg_mode, which actor takes."});
  add_critic_offload(k);
  add_optim(k, "critic.optim", "critic.optim", AT(critic.optim));
}

void add_rollout(Keys& k) {
  k.push_back({"rollout.n", AT(rollout.n), between(1, 65536), "responses",
               "Responses sampled for each prompt: the group that GRPO compares, so at least 2 there; 5 to "
               "16 is usual."});
  k.push_back({"rollout.steps_ahead", AT(rollout.steps_ahead), between(0, 64), "steps",
               "Rollout answers the prompts of that many steps later while training learns from this one's, "
               "so that the two sides work at the same time; needs ranks for rollout alone "
               "([placement]). Responses then come from weights that are that many steps old "
               "(training/staleness). 0 samples each batch from the newest weights; more than 1 is no faster."});
  k.push_back({"rollout.stream", AT(rollout.stream), any(), "",
               "Rollout sends each mini-batch to training as soon as its responses are made and judged, and "
               "training learns from it while the rest of the batch is still generated, with the same results; "
               "needs ranks for rollout alone ([placement]) and several mini-batches a step. Unlike steps_ahead "
               "it makes no response older than its step."});
  k.push_back({"rollout.temperature", AT(rollout.sampling.temperature), above_to(0, 100), "",
               "Divides the logits before sampling, and in the loss too. 1 trains what is sampled; "
               "evaluation is greedy."});
  k.push_back({"rollout.top_k", AT(rollout.sampling.top_k), positive_or(-1), "tokens",
               "Samples among the likeliest tokens only; -1 among all, as training should."});
  k.push_back({"rollout.top_p", AT(rollout.sampling.top_p), above_to(0, 1), "",
               "Samples among the likeliest tokens that hold this much probability together; 1 is off, as "
               "training should be."});
  k.push_back(
      {"rollout.min_p", AT(rollout.sampling.min_p), between(0, 1), "",
       "Rules out tokens less likely than this share of the likeliest one; 0 is off, as training should "
       "be. It goes before top_k and top_p."});
  k.push_back({"rollout.stop", AT(rollout.sampling.stop), any(), "",
               "Texts that end a response, with the token that completes one; evaluation stops there too. "
               "Special tokens count as their text. The tokens stay, and the reward sees the text."});
  k.push_back({"rollout.max_model_len", AT(rollout.max_model_len), at_least(0), "tokens",
               "A prompt and its response together; responses to long prompts are cut short by it. 0: "
               "data.max_prompt_length + data.max_response_length."});
  k.push_back(
      {"rollout.max_num_seqs", AT(rollout.max_num_seqs), between(1, 1 << 20), "sequences",
       "Sequences decoded together on one rank; more are faster until memory or arithmetic is full."});
  k.push_back({"rollout.max_num_batched_tokens", AT(rollout.max_num_batched_tokens), between(1, 1 << 28),
               "tokens",
               "Tokens of one forward of generation, prompts and new tokens together; lower it when memory "
               "runs out."});
  k.push_back({"rollout.page_size", AT(rollout.page_size), between(1, 4096), "tokens",
               "Tokens per page of the KV cache; smaller wastes less of the last page."});
  k.push_back({"rollout.kv_cache_tokens", AT(rollout.kv_cache_tokens), at_least(0), "tokens",
               "Size of the KV cache on one rank; 0 leaves it to kv_cache_memory_gb. With less than all "
               "sequences need, some wait or are begun anew: the results stay."});
  k.push_back({"rollout.kv_cache_memory_gb", AT(rollout.kv_cache_memory_gb), at_least(0), "GiB",
               "Size of the KV cache on one rank, where kv_cache_tokens is 0. 0: room for max_num_seqs "
               "sequences of max_model_len, as far as gpu_memory_utilization allows."});
  k.push_back(
      {"rollout.gpu_memory_utilization", AT(rollout.gpu_memory_utilization), above_to(0, 1), "",
       "Share of the device's memory that may be full when the KV cache is made, where its size is not "
       "set: of the GPU's, or of the host's (or control group's) divided by its ranks."});
  k.push_back({"rollout.free_cache_engine", AT(rollout.free_cache_engine), any(), "",
               "Gives the KV cache's memory back while nothing is generated, so that training has it: the "
               "same numbers; the cache is cleared, and steps of decode are captured anew, each time."});
}

void add_validation(Keys& k) {
  k.push_back(
      {"rollout.val_kwargs.n", AT(validation.n), between(1, 1 << 16), "responses",
       "Responses to each held-out problem: with several, evaluations tell the best, the worst and the "
       "most frequent of n too; set rollout.val_kwargs.temperature with it."});
  k.push_back(
      {"rollout.val_kwargs.temperature", AT(validation.temperature), at_least(0), "",
       "Evaluations sample at this temperature, with the same random numbers each time; 0 answers greedily.",
       "rollout.val_kwargs.temperature, rollout.val_kwargs.do_sample"});
  k.push_back({"rollout.val_kwargs.top_k", AT(validation.top_k), positive_or(-1), "tokens",
               "Evaluations sample among that many likeliest tokens; -1 takes all."});
  k.push_back({"rollout.val_kwargs.top_p", AT(validation.top_p), above_to(0, 1), "",
               "Evaluations sample among the likeliest tokens that hold this share of the probability."});
}

void add_sft(Keys& k) {
  k.push_back({"sft.warm_start", AT(sft.warm_start), any(), "",
               "Runs sft.max_steps of supervised fine-tuning before the algorithm: for a model that cannot "
               "yet get any reward."});
  k.push_back({"sft.max_steps", AT(sft.max_steps), at_least(0), "steps",
               "Steps of supervised fine-tuning at most; 0 goes trainer.total_epochs over the data "
               "(algorithm.name = \"sft\" only)."});
  k.push_back({"sft.train_batch_size", AT(sft.train_batch_size), between(1, 1 << 24), "examples",
               "Examples per step, one update each.", "data.train_batch_size"});
  k.push_back({"sft.bare_batch_size", AT(sft.bare_batch_size), between(0, 1 << 24), "examples",
               "Bare expressions (17+25) that each step learns beside the word problems; data.task = "
               "\"arithmetic\" only."});
  k.push_back({"sft.bare_weight", AT(sft.bare_weight), between(0.0, 1.0), "of the loss",
               "Share of the loss that bare expressions have, where sft.bare_batch_size is above 0."});
  k.push_back({"sft.stop_at_accuracy", AT(sft.stop_at_accuracy), between(0, 1), "",
               "Stops early once greedy accuracy on training problems reaches this, so that room is left for "
               "reinforcement learning; 0 never stops early."});
  k.push_back({"sft.stop_check_freq", AT(sft.stop_check_freq), at_least(1), "steps",
               "How often that accuracy is measured."});
  k.push_back({"sft.stop_check_from", AT(sft.stop_check_from), at_least(0), "steps",
               "The first step at which it is measured."});
  k.push_back({"sft.stop_check_samples", AT(sft.stop_check_samples), at_least(1), "problems",
               "Training problems that it is measured on; more are surer, and slower."});
  k.push_back(
      {"sft.response_key", AT(sft.response_key), any(), "",
       "The column of the data files that holds the text to learn: text, or messages of an assistant. "
       "The same column as data.prompt_key (\"messages\") learns a conversation's last message alone.",
       "data.response_key"});
  k.push_back(
      {"sft.messages_key", AT(sft.messages_key), any(), "",
       "algorithm.name = \"sft\": the column of conversations, lists of {role, content}. Rows that have "
       "it are learned in the model's chat template, the loss on what the assistant says in every turn; "
       "rows without are prompts with responses.",
       "data.messages_key"});
  k.push_back({"sft.tools_key", AT(sft.tools_key), any(), "",
               "The column of the tools that a conversation's assistant may call: a list, or one as JSON.",
               "data.tools_key"});
  k.push_back({"sft.max_length", AT(sft.max_length), at_least(0), "tokens",
               "Longest example, with all that is read and learned; 0: data.max_prompt_length + "
               "data.max_response_length.",
               "data.max_length"});
  k.push_back({"sft.truncation", AT(sft.truncation), one_of({"error", "left", "right"}), "",
               "What becomes of longer ones: error names their places; left cuts off their beginning, right "
               "their end.",
               "data.truncation"});
  add_optim(k, "sft.optim", "optim", AT(sft.optim));
}

void add_rft(Keys& k) {
  k.push_back(
      {"rft.keep_per_prompt", AT(rft.keep_per_prompt), at_least(0), "responses",
       "Right responses of a prompt, of its rollout.n, that a round keeps at most; 0 keeps all. A small "
       "number keeps easy prompts from crowding out hard ones."});
  k.push_back({"rft.dedup", AT(rft.dedup), any(), "",
               "Keeps the same response to a prompt once only; with rft.accumulate, once in all rounds."});
  k.push_back(
      {"rft.accumulate", AT(rft.accumulate), any(), "",
       "Fine-tunes on what all rounds so far have kept, and not on the last round's responses alone."});
  k.push_back(
      {"rft.start_from", AT(rft.start_from), one_of({"current", "base"}), "",
       "What each round fine-tunes: current goes on with the weights that sampled; base begins with those "
       "of the run's start (or of the warm start's end) and a new optimizer, and usually goes with "
       "rft.accumulate."});
  k.push_back({"rft.epochs", AT(rft.epochs), between(1, 1000), "passes",
               "Passes over the kept responses in each round."});
  k.push_back({"rft.mini_batch_size", AT(rft.mini_batch_size), at_least(0), "responses",
               "Responses per optimizer update; 0 takes all of them."});
}

void add_trainer(Keys& k) {
  k.push_back({"trainer.total_epochs", AT(trainer.total_epochs), at_least(1), "epochs",
               "Passes over the training problems, where trainer.total_training_steps is 0."});
  k.push_back({"trainer.total_training_steps", AT(trainer.total_training_steps), at_least(0), "steps",
               "Steps to train; 0 goes by trainer.total_epochs."});
  k.push_back(
      {"trainer.test_freq", AT(trainer.test_freq), positive_or(-1), "steps",
       "Steps between evaluations; -1 evaluates only before (see trainer.val_before_train) and after."});
  k.push_back(
      {"trainer.save_freq", AT(trainer.save_freq), positive_or(-1), "steps",
       "Steps between checkpoints; -1 writes only the last. A run that dies goes on from the newest one."});
  k.push_back({"trainer.critic_warmup", AT(critic.critic_warmup), at_least(0), "steps",
               "The step, counted from 1, in which the actor is updated for the first time; before it only "
               "the critic learns. 0 and 1 never wait."});
  k.push_back(
      {"trainer.log_val_generations", AT(trainer.log_val_generations), at_least(-1), "problems",
       "Problems of each evaluation whose responses are kept in samples/ of the run's folder, the first; "
       "-1 keeps all, 0 none. `trireme samples` shows them."});
  k.push_back({"trainer.val_before_train", AT(trainer.val_before_train), any(), "",
               "Evaluates the model before the first step, to have something to compare with."});
  k.push_back({"trainer.max_checkpoints_to_keep", AT(trainer.max_checkpoints_to_keep), at_least(0),
               "checkpoints", "Deletes the oldest checkpoints above this number; 0 keeps all.",
               "trainer.max_actor_ckpt_to_keep"});
  k.push_back({"trainer.resume", AT(trainer.resume), any(), "",
               "auto goes on from the run folder's newest checkpoint if there is one, never starts anew, "
               "anything else is the folder of a checkpoint to go on from.",
               "trainer.resume_mode, trainer.resume_from_path"});
}

}  // namespace

const std::vector<Key>& keys() {
  static const Keys all = [] {
    Keys k;
    add_run(k);
    add_placement(k);
    add_parallel(k);
    add_model(k);
    add_data(k);
    add_algorithm(k);
    add_preferences(k);
    add_actor(k);
    add_critic(k);
    add_rollout(k);
    add_validation(k);
    add_reward(k);
    add_sft(k);
    add_rft(k);
    add_trainer(k);
    return k;
  }();
  return all;
}

const std::vector<Table>& tables() {
  static const std::vector<Table> all{
      {"run", "The run as a whole: its folder, its seed, how many processes on what device."},
      {"placement", "Which ranks have which role. All roles on all ranks is the default."},
      {"model", "The decoder: a Hugging Face checkpoint, or a new one of the shape in [model.init]."},
      {"model.init",
       "Shape of a new model with random weights and a byte-level tokenizer; used where model.path is "
       "empty."},
      {"data", "Where problems come from and how many make a step."},
      {"data.arithmetic", "The generated word problems of data.task = \"arithmetic\"."},
      {"algorithm", "What is learned from a reward."},
      {"algorithm.kl_ctrl", "The weight of the KL in the reward, where algorithm.use_kl_in_reward is on."},
      {"algorithm.filter_groups", "Which prompts a step learns from."},
      {"algorithm.overlong_buffer", "What long responses cost."},
      {"algorithm.rollout_correction", "Where rollout's policy is not the one that is trained."},
      {"algorithm.dpo", "Direct preference optimisation: what a pair of answers costs."},
      {"actor", "How the policy is updated: the batch's cut and the loss."},
      {"actor.policy_loss", "The loss's variant, and what belongs to one variant alone."},
      {"actor.parallel", "How the policy's ranks share it."},
      {"actor.optim", "AdamW and its schedule for the policy."},
      {"critic", "How values are learned, where algorithm.adv_estimator = \"gae\" (PPO)."},
      {"critic.model", "What the critic begins with."},
      {"critic.parallel", "How the critic's ranks share it."},
      {"critic.optim", "AdamW and its schedule for the critic."},
      {"rollout", "How responses are generated. Evaluation uses the same engine ([rollout.val_kwargs])."},
      {"rollout.val_kwargs", "How held-out problems are asked."},
      {"rollout.parallel", "How the ranks that generate share the model."},
      {"reference", "The policy that a KL term holds the actor to."},
      {"reference.parallel", "How the reference's ranks share it."},
      {"reward", "How a response is judged: by a rule, or by code of your own (docs/rewards.md)."},
      {"reward.code", "Programs that are run against tests in a sandbox (reward.name = \"code\")."},
      {"reward.format", "What form a response has to have, as a component of the reward."},
      {"reward.repetition", "What repetitions cost, as a component of the reward."},
      {"reward.cosine", "What a response's length is worth, as a component of the reward."},
      {"reward.function", "A function in a Python file that judges, called as verl calls compute_score."},
      {"reward.http", "A service that judges, asked over HTTP."},
      {"reward.scorer",
       "The processes that run reward.function or reward.command: how many, and what happens if they fail."},
      {"reward_model",
       "A decoder with one number for a whole sequence, which judges responses beside a rule or alone "
       "(docs/rewards.md)."},
      {"reward_model.parallel", "How the reward model's ranks share it."},
      {"sft",
       "Supervised fine-tuning: a warm start before the algorithm, or the whole run (algorithm.name = "
       "\"sft\")."},
      {"sft.optim", "AdamW and its schedule for supervised fine-tuning."},
      {"rft",
       "Rejection sampling fine-tuning (algorithm.name = \"rft\"): a step is a round, in which "
       "data.train_batch_size prompts are answered, and the right answers learned with [actor.optim]."},
      {"trainer", "How long the run goes on, when it evaluates and when it saves."},
  };
  return all;
}

}  // namespace trireme::config
