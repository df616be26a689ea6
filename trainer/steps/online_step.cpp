#include "trainer/steps/online_step.h"

#include <algorithm>

#include "runtime/base/log.h"
#include "runtime/tensors/sequence_exchange.h"
#include "trainer/algorithms/estimator_config.h"
#include "trainer/algorithms/reward_shaping.h"
#include "trainer/steps/credit.h"
#include "trainer/steps/generation.h"
#include "trainer/steps/group_filter.h"
#include "trainer/steps/token_values.h"

namespace trireme::steps {

using placement::Role;

OnlineStep::OnlineStep(StepContext& context, const data::DataConfig& data,
                       const rollout::RolloutConfig& rollout, const algorithms::AlgorithmConfig& algorithm,
                       const ActorConfig& actor)
    : context_(context),
      data_(data),
      rollout_(rollout),
      algorithm_(algorithm),
      actor_(actor),
      mini_batch_size_(actor.ppo_mini_batch_size > 0 ? actor.ppo_mini_batch_size : data.train_batch_size),
      kl_(algorithm.kl_ctrl),
      rejections_(algorithms::read_rejections(algorithm.rollout_correction.rollout_rs,
                                              algorithm.rollout_correction.rollout_rs_threshold)) {}

observe::Metrics OnlineStep::run(int64_t step, int64_t total_steps, int64_t taken) {
  pipeline::StageRunner& stages = context_.stages;
  session::Session& session = context_.session;
  const bool is_actor = session.has(Role::actor), is_rollout = session.has(Role::rollout);
  const auto& roles = session.roles();
  metrics_ = {};
  std::vector<Group> groups;

  GroupFilter filter(algorithm_.filter_groups, data_.train_batch_size, session.world());
  for (bool enough = false; !enough;) {
    const int64_t before = filter.num_batches() * data_.train_batch_size;
    stages.run("gen", is_rollout, [&] { groups = generate(step, taken + before, before); });
    if (algorithms::needs_of(algorithm_.adv_estimator).greedy_response)
      stages.run("gen_max", is_rollout, [&] { greedy_scores(groups, step); });
    stages.run("reward", is_rollout, [&] { score(groups); });
    const auto take = [&] {
      const bool counts = is_rollout && session.place_in(Role::rollout).t == 0;
      enough = filter.take(std::move(groups), counts, metrics_);
    };
    algorithm_.filter_groups.enable ? stages.run("filter", take) : take();
  }
  problems_taken_ = filter.num_batches() * data_.train_batch_size;
  groups = filter.result();
  if (is_rollout) record_batch(groups);
  if (!roles.reference.empty()) {
    stages.run("exchange", [&] { groups = send_to(Role::reference, std::move(groups), Role::rollout); });
    stages.run("ref", session.has(Role::reference), [&] { reference_log_probs(groups); });
  }
  const Role last = roles.reference.empty() ? Role::rollout : Role::reference;
  stages.run("exchange", [&] { groups = send_to(Role::actor, std::move(groups), last); });
  if (recomputes_old_log_probs()) stages.run("old_log_prob", is_actor, [&] { old_log_probs(groups); });
  stages.run("adv", is_actor, [&] { advantages(groups); });
  stages.run("update_actor", is_actor, [&] { update_actor(groups, step, total_steps); });
  stages.run("update_weights", [&] { publish_weights(context_.models); });
  const observe::Metrics result = metrics_.reduce(session.world());
  const auto apart = result.find("training/rollout_probs_diff_max");
  if (context_.models.is_exact() && session.rank() == 0 && apart != result.end() && apart->second > 0)
    log::warn(
        "rollout and training should give the same bits here, and differ by {} in a probability: please "
        "report",
        apart->second);
  return result;
}

int64_t OnlineStep::updates_per_step() const {
  return actor_.ppo_epochs * ((data_.train_batch_size + mini_batch_size_ - 1) / mini_batch_size_);
}

OldPolicy OnlineStep::old_policy() const {
  const algorithms::RolloutCorrection& correction = algorithm_.rollout_correction;
  if (context_.models.is_exact() || correction.bypass_mode) return OldPolicy::sampled;
  return updates_per_step() > 1 || correction.is_on() ? OldPolicy::recomputed : OldPolicy::itself;
}

// What ranks of a replica do alike is recorded by the first of them.
void OnlineStep::record_as(Role role) {
  metrics_.record(context_.session.place_in(role).t == 0);
}

std::vector<Group> OnlineStep::generate(int64_t step, int64_t taken, int64_t first_id) {
  record_as(Role::rollout);
  auto groups = generate_groups(context_, data_, rollout_, {step, taken, first_id}, metrics_);
  record_engine(context_, metrics_);
  const auto made = static_cast<double>(tokens_of(groups));
  metrics_.sum("perf/total_num_tokens", made);
  metrics_.max("global_seqlen/max", made);
  metrics_.min("global_seqlen/min", made);
  metrics_.mean("global_seqlen/mean", made);
  return groups;
}

void OnlineStep::greedy_scores(std::vector<Group>& groups, int64_t step) {
  const auto responses = greedy_responses(context_, data_, groups, step);
  for (size_t i = 0; i < groups.size(); ++i) {
    groups[i].greedy_score = score_of(groups[i], responses[i], nullptr);
    metrics_.mean("critic/greedy_score/mean", groups[i].greedy_score);
  }
}

void OnlineStep::score(std::vector<Group>& groups) {
  for (Group& group : groups)
    for (Sample& sample : group.samples) sample.score = score_of(group, sample.tokens, &sample.correct);
}

// The reward function's judgement, less what an overlong response loses.
double OnlineStep::score_of(const Group& group, const std::vector<int32_t>& response, bool* correct) const {
  const data::Problem& problem = context_.problems.train[static_cast<size_t>(group.problem)];
  const rewards::Score score =
      context_.reward.score(problem.data_source, context_.tokenizer.decode(response), problem.answer);
  if (correct) *correct = score.correct;
  return score.value + algorithms::overlong_penalty(static_cast<int64_t>(response.size()),
                                                    data_.max_response_length, algorithm_.overlong_buffer);
}

void OnlineStep::record_batch(const std::vector<Group>& groups) {
  record_as(Role::rollout);
  for (const Group& group : groups)
    for (const Sample& sample : group.samples) {
      metrics_.spread("response_length", static_cast<double>(sample.length()));
      metrics_.mean("response_length/clip_ratio", sample.stopped ? 0.0 : 1.0);
    }
  if (algorithm_.filter_groups.enable)
    metrics_.mean("training/num_gen_batches", static_cast<double>(problems_taken_ / data_.train_batch_size));
}

void OnlineStep::reference_log_probs(std::vector<Group>& groups) {
  score_tokens(
      *context_.models.reference, groups, rollout_.sampling.temperature, actor_.ppo_max_token_len_per_rank,
      [](Sample& sample, std::vector<float> log_probs) { sample.ref_log_probs = std::move(log_probs); });
}

void OnlineStep::old_log_probs(std::vector<Group>& groups) {
  score_tokens(
      *context_.models.actor, groups, rollout_.sampling.temperature, actor_.ppo_max_token_len_per_rank,
      [](Sample& sample, std::vector<float> log_probs) { sample.old_log_probs = std::move(log_probs); },
      context_.models.actor_parameters.get());
}

void OnlineStep::advantages(std::vector<Group>& groups) {
  record_as(Role::actor);
  assign_credit(groups, algorithm_, kl_, context_.session.dp(Role::actor), metrics_);
  correct_rollout(groups, algorithm_.rollout_correction, rejections_, metrics_);
}

void OnlineStep::update_actor(std::vector<Group>& groups, int64_t step, int64_t total_steps) {
  PolicyUpdate update;
  update.lr = optim::learning_rate(actor_.optim, step, total_steps);
  update.temperature = rollout_.sampling.temperature;
  update.max_response_length = data_.max_response_length;
  update.old = old_policy();
  update.part = 1.0 / static_cast<double>(updates_per_step());
  update.seed = context_.seed ^ static_cast<uint64_t>(step) << 40;
  metrics_.mean("actor/lr", update.lr);
  if (actor_.loss.use_kl_loss) metrics_.mean("actor/kl_coef", actor_.loss.kl_loss_coef);
  metrics_.max("global_seqlen/balanced_max", static_cast<double>(tokens_of(groups)));
  metrics_.min("global_seqlen/balanced_min", static_cast<double>(tokens_of(groups)));
  // Ascending ids: a mini-batch is a range of the batch's prompts, the same for any number of ranks.
  std::sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) { return a.id < b.id; });
  const auto below = [&](int64_t id) {
    return std::partition_point(groups.begin(), groups.end(),
                                [&](const Group& group) { return group.id < id; });
  };
  for (int64_t epoch = 0; epoch < actor_.ppo_epochs; ++epoch)
    for (int64_t first = 0; first < data_.train_batch_size; first += mini_batch_size_) {
      update.first = epoch == 0 && first == 0;
      update_policy(context_, {below(first), below(first + mini_batch_size_)}, actor_, update, metrics_);
      update.seed += 1 << 20;
    }
}

// From the replicas of one role, whose ranks all have them, to those of another.
std::vector<Group> OnlineStep::send_to(Role to, std::vector<Group> groups, Role from) {
  session::Session& session = context_.session;
  std::vector<tensors::Record> records;
  if (session.has(from) && session.place_in(from).t == 0)
    for (const Group& group : groups) records.push_back({group.id, group.cost(), pack(group)});
  groups.clear();
  for (const tensors::Record& record :
       tensors::exchange(session.world(), std::move(records), session.roles().mesh(to).replicas()))
    groups.push_back(unpack(record.bytes));
  return groups;
}

}  // namespace trireme::steps
