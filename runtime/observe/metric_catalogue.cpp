// Names and meanings follow verl's, so that dashboards carry over; docs/metrics.md is made from this table.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/observe/metrics.h"

namespace trireme::observe {
namespace {

/// NAME/mean, NAME/max, NAME/min.
void add_spread(std::vector<MetricInfo>& table, const std::string& name, const std::string& unit,
                const std::string& of_what) {
  table.push_back({name + "/mean", unit, "Mean " + of_what});
  table.push_back({name + "/max", unit, "Greatest " + of_what});
  table.push_back({name + "/min", unit, "Least " + of_what});
}

void add_training(std::vector<MetricInfo>& table) {
  table.insert(
      table.end(),
      {{"training/global_step", "steps", "The step that these numbers belong to, from 1"},
       {"training/epoch", "epochs", "Which pass over the training data, from 0"},
       {"training/rollout_probs_diff_mean", "probability",
        "Mean difference, over the response tokens of a step's first update, between the probability "
        "that rollout recorded and the one that the actor computes for the same token"},
       {"training/rollout_probs_diff_max", "probability",
        "Greatest of those differences; exactly 0 on CPUs, where both compute the same bits, unless rollout's "
        "weights are older (rollout.steps_ahead)"},
       {"training/rollout_probs_diff_std", "probability", "Standard deviation of those differences"},
       {"training/staleness", "steps",
        "How many steps the weights that sampled this step's responses are older than those that learn from "
        "them: rollout.steps_ahead at most, and only where that is above 0"},
       {"training/num_gen_batches", "batches",
        "Batches generated for the step, where algorithm.filter_groups is on"},
       {"training/filter_groups/evicted_samples", "responses",
        "Responses left out because all of their prompt were judged alike"},
       {"rollout_corr/kl", "nats per token",
        "Rollout's log-probability less the policy's, on average; as the following, only where "
        "algorithm.rollout_correction is on"},
       {"rollout_corr/k3_kl", "nats per token", "The same by an estimator that is never negative"},
       {"rollout_corr/rollout_rs_masked_fraction", "fraction", "Tokens left out by rollout_rs"},
       {"rollout_corr/rollout_rs_seq_masked_fraction", "fraction",
        "Responses of which some token was left out by rollout_rs"}});
  add_spread(table, "rollout_corr/rollout_is", "1", "importance weight of a token");
}

void add_critic(std::vector<MetricInfo>& table) {
  add_spread(table, "critic/score", "reward", "score of a response, as the reward function gave it");
  add_spread(table, "critic/rewards", "reward",
             "reward of a response: its score, less the KL penalty in the reward");
  add_spread(table, "critic/advantages", "1", "advantage of a response token");
  add_spread(table, "critic/returns", "reward", "return of a response token");
  add_spread(table, "critic/values", "reward", "value that the critic gave a response token");
  table.insert(
      table.end(),
      {{"critic/vf_explained_var", "1",
        "How much of the returns' variance the values explain: 1 all, 0 no more than a constant does"},
       {"critic/vf_loss", "1", "The critic's loss, mean over the step's updates, as the following"},
       {"critic/vf_clipfrac", "fraction", "Tokens where the clip of values decides"},
       {"critic/vpred_mean", "reward", "Value of a response token while the critic learns"},
       {"critic/grad_norm", "1", "Norm of the critic's gradient over all its parameters, before clipping"},
       {"critic/lr", "1", "Learning rate of the critic's updates"},
       {"critic/skipped_updates", "updates",
        "Updates of the critic left out, their gradient not being finite"}});
  table.push_back({"critic/acc/mean", "fraction", "Responses whose answer is right"});
  table.push_back(
      {"critic/greedy_score/mean", "reward",
       "Mean score of the greedy responses that algorithm.adv_estimator = \"remax\" compares with"});
}

void add_actor(std::vector<MetricInfo>& table) {
  table.insert(
      table.end(),
      {{"actor/pg_loss", "1", "Policy-gradient loss, mean over the step's updates"},
       {"actor/pg_clipfrac", "fraction",
        "Tokens whose ratio was clipped by clip_ratio_low or clip_ratio_high; of clip_cov, those that it "
        "chose"},
       {"actor/pg_clipfrac_lower", "fraction",
        "Tokens of negative advantage that were clipped by clip_ratio_c (vanilla), or at all (geo_mean)"},
       {"actor/ppo_kl", "nats per token", "Mean of old log-probability less new log-probability"},
       {"actor/entropy", "nats per token", "Mean entropy of the policy at response tokens"},
       {"actor/entropy_loss", "nats per token",
        "The entropy as it enters the loss, where entropy_coeff is not 0"},
       {"actor/kl_loss", "nats per token",
        "Estimate (kl_loss_type) of the divergence from the reference policy"},
       {"actor/kl_coef", "1", "Its coefficient in the loss"},
       {"actor/reward_kl_penalty", "nats per token",
        "Divergence from the reference policy, as taken off the reward"},
       {"actor/reward_kl_penalty_coeff", "1", "Its coefficient"},
       {"actor/grad_norm", "1",
        "Norm of the gradient over all parameters, before clipping; mean over the updates"},
       {"actor/lr", "1", "Learning rate of the last update"},
       {"actor/skipped_updates", "updates", "Updates left out because their gradient was not finite"}});
}

void add_lengths(std::vector<MetricInfo>& table) {
  add_spread(table, "response_length", "tokens", "length of a response, with its stop token");
  table.push_back(
      {"response_length/clip_ratio", "fraction", "Responses that were cut off at data.max_response_length"});
  add_spread(table, "prompt_length", "tokens", "length of a prompt");
  table.push_back({"prompt_length/clip_ratio", "fraction", "Prompts as long as data.max_prompt_length"});
  table.insert(
      table.end(),
      {{"global_seqlen/min", "tokens",
        "Fewest tokens that one rank's rollout made and read, before balancing"},
       {"global_seqlen/max", "tokens", "Most tokens that one rank's rollout made and read, before balancing"},
       {"global_seqlen/minmax_diff", "tokens", "The difference of the two"},
       {"global_seqlen/balanced_min", "tokens", "Fewest tokens that one rank trains on, after balancing"},
       {"global_seqlen/balanced_max", "tokens", "Most tokens that one rank trains on, after balancing"},
       {"global_seqlen/mean", "tokens", "Tokens per rank"}});
}

void add_rollout(std::vector<MetricInfo>& table) {
  table.insert(
      table.end(),
      {{"rollout/generated_tokens", "tokens", "Response tokens"},
       {"rollout/num_running/mean", "sequences",
        "Sequences with a place in the KV cache, over the forwards of all ranks; far below "
        "rollout.max_num_seqs "
        "while others wait, pages are short"},
       {"rollout/num_running/max", "sequences", "Most of them at once on one rank"},
       {"rollout/num_waiting/mean", "sequences",
        "Sequences that are neither running nor finished, over the forwards of all ranks: above 0, more "
        "rollout.max_num_seqs or pages would be used"},
       {"rollout/num_waiting/max", "sequences", "Most of them at once on one rank"},
       {"rollout/pages_peak", "pages", "Most pages of the KV cache in use at once, on the rank with most"},
       {"rollout/pages_total", "pages", "Pages that the KV cache of one rank has"},
       {"rollout/prefix_hit_rate", "fraction",
        "Of the tokens of all samples' prompts, those found in the KV cache instead of computed: made for "
        "another sample of the prompt or for another prompt that begins alike"},
       {"rollout/preemptions", "sequences",
        "Sequences that gave their pages up to others and went on later; many slow a step down: give the KV "
        "cache more memory or lower rollout.max_num_seqs"},
       {"rollout/recomputed_tokens", "tokens",
        "Tokens whose keys and values were computed again after that, their pages having been reused"}});
}

struct StageText {
  const char* name;
  const char* meaning;
};

constexpr StageText kStages[] = {
    {"data", "choosing and tokenizing the examples of supervised fine-tuning"},
    {"gen", "generating the responses"},
    {"gen_max", "generating the greedy responses of algorithm.adv_estimator = \"remax\""},
    {"reward", "scoring them"},
    {"reward_model", "the reward model's numbers"},
    {"filter", "finding the prompts whose responses differ, where algorithm.filter_groups is on"},
    {"old_log_prob", "the actor's log-probabilities before the update, where they are not those of rollout"},
    {"ref", "the reference policy's log-probabilities"},
    {"exchange", "sending sequences to the ranks that need them next"},
    {"values", "the critic's values"},
    {"adv", "advantages"},
    {"update_critic", "the critic's update: forward, backward, reduction, optimizer"},
    {"update_actor", "the actor's update: forward, backward, reduction, optimizer"},
    {"wait", "waiting for the other side, where rollout and training work at the same time"},
    {"update_weights", "handing the new weights to rollout"},
    {"save_checkpoint", "writing a checkpoint"},
    {"testing", "evaluation"},
    {"step", "the whole step"},
};

void add_times(std::vector<MetricInfo>& table) {
  for (const auto& [name, meaning] : kStages)
    table.push_back(
        {fmt::format("timing_s/{}", name), "s", fmt::format("Time of {}, on the slowest rank", meaning)});
  for (const auto& [name, meaning] : kStages)
    table.push_back({fmt::format("timing_per_token_ms/{}", name), "ms/token",
                     fmt::format("timing_s/{} by {} tokens of the step", name,
                                 std::string_view(name) == "gen" ? "the response" : "all")});
  for (const auto& [name, meaning] : kStages)
    table.push_back({fmt::format("memory_gb/{}", name), "GiB",
                     fmt::format("Most memory in {}, on the rank that used most: of tensors on a GPU, of the "
                                 "process on a CPU; since the last such line",
                                 meaning)});
  table.insert(table.end(),
               {{"perf/max_memory_allocated_gb", "GiB", "The largest memory_gb/STAGE"},
                {"timing_s/wait_prev_gen", "s",
                 "rollout.steps_ahead, rollout.stream: how long training waited for what rollout was generating"},
                {"timing_s/wait_update", "s", "How long rollout waited for the update, to get its weights"},
                {"perf/total_num_tokens", "tokens", "Prompt and response tokens of the step"},
                {"perf/time_per_step", "s", "timing_s/step"},
                {"perf/throughput", "tokens/s per rank", "perf/total_num_tokens by time and ranks"}});
}

void add_idle(std::vector<MetricInfo>& table) {
  table.push_back({"trainer/idle_ratio", "fraction",
                   "timing_s/wait_prev_gen of timing_s/step; where it is high, give rollout more ranks"});
  table.push_back({"rollouter/idle_ratio", "fraction",
                   "timing_s/wait_update of timing_s/step; where it is high, give training more ranks"});
}

void add_evaluation_and_sft(std::vector<MetricInfo>& table) {
  table.insert(
      table.end(),
      {{"val-core/*/acc/mean@*", "fraction",
        "Responses to the held-out problems of one data source that are right. Behind @ stands how many "
        "responses a problem has, rollout.val_kwargs.n; with one there are no metrics but mean@1"},
       {"val-core/*/reward/mean@*", "reward", "Their mean reward"},
       {"val-core/*/*/best@*/mean", "1",
        "Of acc and reward, that of the best of a problem's responses: the mean of 1000 draws with "
        "repetition, as verl draws them"},
       {"val-core/*/*/maj@*/mean", "1",
        "That of the most frequent answer, where the rule knows answers (or the function says pred)"},
       {"val-core/*/*/*/std", "1", "The standard deviation of those draws"},
       {"val-aux/*/*/worst@*/mean", "1", "That of the worst of a problem's responses"},
       {"val-aux/*/*/best@*/mean", "1",
        "As above, for draws of 2, 4, 8, ... responses, and for the reward's components"},
       {"val-aux/*/*/maj@*/mean", "1", "Likewise"},
       {"val-aux/*/*/*/std", "1", "The standard deviation of those draws"},
       {"val-aux/*/*/mean@*", "1", "Mean of a component of the reward"},
       {"val-aux/*/*/std@*", "1", "Standard deviation over a problem's responses"},
       {"val/loss", "nats per token",
        "Supervised fine-tuning: cross-entropy of the learned tokens of held-out examples"},
       {"sft/loss", "nats per token", "Cross-entropy of the tokens that are learned"},
       {"sft/learned_tokens", "tokens", "How many those are, of perf/total_num_tokens"},
       {"sft/train_accuracy", "fraction",
        "Training problems answered rightly, decoding greedily (sft.stop_at_accuracy looks at it)"},
       {"sft/grad_norm", "1", "Norm of the gradient over all parameters, before clipping"},
       {"sft/lr", "1", "Learning rate of the update"}});
}

void add_rft(std::vector<MetricInfo>& table) {
  table.insert(
      table.end(),
      {{"rft/accepted", "fraction", "Responses that the reward accepts, and that came to their end"},
       {"rft/solved", "fraction", "Prompts with such a response"},
       {"rft/duplicates", "responses", "Accepted ones that were left out as the same as another"},
       {"rft/kept", "responses", "Accepted ones that are learned (rft.keep_per_prompt of a prompt)"},
       {"rft/dataset_size", "responses", "Those of this round, and with rft.accumulate of all before it"},
       {"rft/updates", "updates", "Optimizer updates of the round"},
       {"rft/loss", "nats per token", "Cross-entropy of the kept responses' tokens, over the updates"},
       {"rft/learned_tokens", "tokens", "Tokens that were learned, in all passes"},
       {"rft/grad_norm", "1", "Norm of the gradient over all parameters, before clipping"},
       {"rft/lr", "1", "Learning rate of the round's last update"}});
}

void add_reward(std::vector<MetricInfo>& table) {
  table.insert(
      table.end(),
      {{"reward/*/mean", "1",
        "Mean of what a reward function returned beside the score, by its name there; and of the components "
        "of a "
        "reward that has weights (answer, format, repetition, cosine, overlong), before their weights"},
       {"reward/model/*", "reward",
        "What the reward model says (mean, max, min), before reward_model.weight"},
       {"reward/tests_passed/mean", "fraction",
        "reward.name = \"code\": tests passed, of those that were run"},
       {"reward/tests_timed_out/mean", "fraction", "Programs that were out of time in a test"},
       {"reward/errors", "calls", "Calls of the reward function that raised, or that returned no number; requests that the service did not answer with one"},
       {"reward/timeouts", "calls", "Calls that took longer than reward.scorer.timeout_s, requests than reward.http.timeout_s"},
       {"reward/ended_processes", "processes", "Processes that ended during a call"},
       {"reward/defaults", "responses",
        "Responses that got reward.scorer.default_score, having failed reward.scorer.retries times more"},
       {"reward/replayed", "responses", "Responses whose score stood in the journal of a run before"}});
}

void add_preferences(std::vector<MetricInfo>& table) {
  const std::vector<MetricInfo> metrics{
      {"dpo/loss", "1", "Mean loss of a pair (algorithm.dpo.loss_type)"},
      {"rewards/chosen", "1",
       "beta times the log-ratio of policy to reference of a chosen answer; of its log-probability where "
       "algorithm.dpo.reference_free"},
      {"rewards/rejected", "1", "The same of a rejected answer"},
      {"rewards/margins", "1", "The difference of the two"},
      {"rewards/accuracies", "fraction", "Pairs whose chosen answer has the greater reward"},
      {"logps/chosen", "nats", "Log-probability of a chosen answer"},
      {"logps/rejected", "nats", "Log-probability of a rejected answer"},
      {"logps/accuracies", "fraction", "Pairs whose chosen answer is the likelier one"}};
  table.insert(table.end(), metrics.begin(), metrics.end());
  table.push_back({"dpo/sft_loss", "nats per token",
                   "Cross-entropy of the chosen answers, where algorithm.dpo.sft_coef is above 0"});
  for (const MetricInfo& metric : metrics)
    table.push_back({"val/" + metric.name, metric.unit, metric.meaning});
}

// Each * of the pattern is some text, but not none.
bool matches(std::string_view pattern, std::string_view name) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == name;
  const auto head = pattern.substr(0, star), tail = pattern.substr(star + 1);
  if (!name.starts_with(head)) return false;
  for (size_t begin = head.size() + 1; begin <= name.size(); ++begin)
    if (matches(tail, name.substr(begin))) return true;
  return false;
}

struct GroupText {
  const char* prefix;
  const char* heading;
};

constexpr GroupText kGroups[] = {
    {"training", "Where the run stands, and whether rollout and training agree"},
    {"rollout_corr", "How far rollout's policy is from the one that is trained"},
    {"critic", "Rewards, advantages and values"},
    {"actor", "The policy's update"},
    {"response_length", "Lengths of responses"},
    {"prompt_length", "Lengths of prompts"},
    {"global_seqlen", "How even the ranks' shares are"},
    {"rollout", "Generation"},
    {"reward", "Reward functions of the user's own"},
    {"timing_s", "Time by stage"},
    {"timing_per_token_ms", "Time by stage and token"},
    {"memory_gb", "Memory by stage"},
    {"trainer", "How long training waits for rollout"},
    {"rollouter", "How long rollout waits for training"},
    {"perf", "Speed and memory"},
    {"val-core", "Evaluation"},
    {"val-aux", "Evaluation, the rest"},
    {"val", "Evaluation by loss, and of pairs"},
    {"sft", "Supervised fine-tuning"},
    {"rft", "Rejection sampling fine-tuning"},
    {"dpo", "Direct preference optimisation"},
    {"rewards", "What the policy prefers, beside the reference"},
    {"logps", "How likely the answers are"},
};

std::string prefix_of(const MetricInfo& metric) {
  return metric.name.substr(0, metric.name.find('/'));
}

}  // namespace

const std::vector<MetricInfo>& metric_catalogue() {
  static const std::vector<MetricInfo> catalogue = [] {
    std::vector<MetricInfo> table;
    add_training(table);
    add_critic(table);
    add_actor(table);
    add_lengths(table);
    add_rollout(table);
    add_times(table);
    add_idle(table);
    add_evaluation_and_sft(table);
    add_reward(table);
    add_rft(table);
    add_preferences(table);
    std::ranges::stable_sort(table, {}, [](const MetricInfo& metric) {
      const auto group = std::ranges::find(kGroups, prefix_of(metric), &GroupText::prefix);
      return group - std::begin(kGroups);
    });
    return table;
  }();
  return catalogue;
}

bool is_documented(const std::string& name) {
  return std::ranges::any_of(metric_catalogue(),
                             [&](const MetricInfo& metric) { return matches(metric.name, name); });
}

std::string metrics_markdown() {
  std::string text =
      "# Metrics\n"
      "Each step's numbers go to `metrics.jsonl` (one JSON object a line) and to `tensorboard/` in the run's "
      "folder,\n"
      "under the names that verl gives them. A `*` stands for any text, such as the name of a data source. A "
      "metric\n"
      "appears only in steps that have it: `testing` where the step ended with an evaluation, `ref` where a "
      "reference\n"
      "policy is used. Means over tokens and responses are taken over all ranks.\n"
      "\n"
      "This page is generated from `runtime/observe/metric_catalogue.cpp`.\n";
  for (const auto& [prefix, heading] : kGroups) {
    text += fmt::format("\n## {}\n| metric | unit | meaning |\n|---|---|---|\n", heading);
    for (const MetricInfo& metric : metric_catalogue())
      if (prefix_of(metric) == prefix)
        text += fmt::format("| `{}` | {} | {} |\n", metric.name, metric.unit == "1" ? "" : metric.unit,
                            metric.meaning);
  }
  return text;
}

}  // namespace trireme::observe
