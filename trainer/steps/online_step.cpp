#include "trainer/steps/online_step.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "trainer/algorithms/estimator_config.h"
#include "trainer/algorithms/reward_shaping.h"
#include "trainer/steps/credit.h"
#include "trainer/steps/critic_update.h"
#include "trainer/steps/generation.h"
#include "trainer/steps/group_exchange.h"
#include "trainer/steps/group_filter.h"
#include "trainer/steps/reward_model.h"
#include "trainer/steps/token_values.h"

namespace trireme::steps {

using placement::Role;

namespace {

// The ranks that make batches, or those that learn from them; null on the others.
comm::Communicator* lane_of(session::Session& session, bool goes_ahead, bool makes) {
  if (!goes_ahead) return &session.world();
  if (session.has(Role::rollout) != makes) return nullptr;
  return makes ? &session.group(Role::rollout).host() : &session.training().host();
}

}  // namespace

OnlineStep::OnlineStep(StepContext& context, const data::DataConfig& data,
                       const rollout::RolloutConfig& rollout, const algorithms::AlgorithmConfig& algorithm,
                       const ActorConfig& actor, const CriticConfig& critic)
    : context_(context),
      data_(data),
      rollout_(rollout),
      algorithm_(algorithms::resolved(algorithm, rollout.steps_ahead > 0)),
      actor_(actor),
      critic_(resolved(critic, actor)),
      mini_batch_size_(actor.ppo_mini_batch_size > 0 ? actor.ppo_mini_batch_size : data.train_batch_size),
      critic_mini_batch_size_(critic_.ppo_mini_batch_size > 0 ? critic_.ppo_mini_batch_size
                                                              : data.train_batch_size),
      kl_(algorithm.kl_ctrl),
      rejections_(algorithms::read_rejections(algorithm.rollout_correction.rollout_rs,
                                              algorithm.rollout_correction.rollout_rs_threshold)),
      goes_ahead_(rollout.steps_ahead > 0),
      all_(context.stages, &context.session.world()),
      making_(context.stages, lane_of(context.session, goes_ahead_, true)),
      learning_(context.stages, lane_of(context.session, goes_ahead_, false)) {}

observe::Metrics OnlineStep::run(int64_t step, int64_t total_steps, int64_t taken) {
  session::Session& session = context_.session;
  const bool is_actor = session.has(Role::actor), is_critic = session.has(Role::critic);
  const auto& roles = session.roles();
  const auto ahead = static_cast<size_t>(rollout_.steps_ahead), left = static_cast<size_t>(total_steps - step);
  metrics_ = {};

  // What nobody could make meanwhile: this step's batch, or the first ones of a run that goes ahead.
  while (batches_.size() < std::min(left, std::max<size_t>(1, ahead))) make_batch(all_, step, taken);
  Batch& batch = batches_.front();
  std::vector<Group> groups = std::move(batch.groups);
  metrics_.add(batch.metrics);
  std::vector<Group> judged;  // stays with rollout until its scores are known
  if (waits_late()) judged = groups;

  // Rollout's ranks pass by what follows, where they go ahead, and make the batch of another step.
  Role holder = Role::rollout;
  const auto hand_to = [&](Role to) {
    const pipeline::Lane& both = holder == Role::rollout ? all_ : learning_;
    both.run("exchange", [&] { groups = send_to(to, std::move(groups), holder); });
    holder = to;
  };
  if (!roles.reference.empty()) {
    hand_to(Role::reference);
    learning_.run("ref", session.has(Role::reference), [&] { reference_log_probs(groups); });
  }
  if (!roles.critic.empty()) {
    hand_to(Role::critic);
    learning_.run("values", is_critic, [&] { critic_values(groups); });
  }
  hand_to(Role::actor);
  if (recomputes_old_log_probs()) learning_.run("old_log_prob", is_actor, [&] { old_log_probs(groups); });
  if (waits_late()) late_scores(std::move(judged), groups);
  learning_.run("adv", is_actor, [&] { advantages(groups); });
  if (!roles.critic.empty()) {
    std::vector<Group> for_critic;
    learning_.run("exchange", [&] { for_critic = send_to(Role::critic, groups, Role::actor); });
    learning_.run("update_critic", is_critic,
                  [&] { update_values(std::move(for_critic), step, total_steps); });
  }
  const bool updates_actor = step + 1 >= critic_.critic_warmup;
  if (updates_actor) learning_.run("update_actor", is_actor, [&] { update_actor(groups, step, total_steps); });

  if (goes_ahead_) {
    if (left > ahead) make_batch(making_, step, taken);
    all_.run("wait", [&] { meet(); });
  }
  if (updates_actor) all_.run("update_weights", [&] { publish_weights(context_.models); });
  problems_taken_ = batch.taken;
  batches_.pop_front();

  const observe::Metrics result = metrics_.reduce(session.world());
  const auto apart = result.find("training/rollout_probs_diff_max");
  if (context_.models.is_exact() && !goes_ahead_ && session.rank() == 0 && apart != result.end() &&
      apart->second > 0)
    log::warn(
        "rollout and training should give the same bits here, and differ by {} in a probability: please "
        "report",
        apart->second);
  return result;
}

// The batch behind those that there are, by the weights that rollout has in step `step`.
void OnlineStep::make_batch(const pipeline::Lane& lane, int64_t step, int64_t taken) {
  for (const Batch& before : batches_) taken += before.taken;
  Batch batch{.step = step + static_cast<int64_t>(batches_.size()), .weights = step};
  const bool is_rollout = context_.session.has(Role::rollout);
  const bool counts = is_rollout && context_.session.speaks_for_replica(Role::rollout);
  batch.metrics.record(counts);  // what ranks of a replica do alike is recorded by one of them
  const int64_t size = data_.train_batch_size;

  GroupFilter filter(algorithm_.filter_groups, size, lane.is_mine() ? lane.ranks() : context_.session.world());
  for (bool enough = false; !enough;) {
    const int64_t before = filter.num_batches() * size;
    std::vector<Group> groups;
    std::optional<Judging> judging;  // goes on from "gen" to "reward"
    lane.run("gen", is_rollout, [&] {
      Generated generated = generate(batch, taken + before, before);
      groups = std::move(generated.groups);
      judging.emplace(std::move(generated.judging));
    });
    if (algorithms::needs_of(algorithm_.adv_estimator).greedy_response)
      lane.run("gen_max", is_rollout, [&] { greedy_scores(groups, batch); });
    if (context_.reward_input) model_scores(groups, batch);
    // Nothing before the advantages asks for scores, but for a filter: what is judged slowly is judged while
    // the models compute.
    if (waits_late() && is_rollout)
      judging_.emplace(std::move(*judging));
    else if (!waits_late())
      lane.run("reward", is_rollout, [&] { score(groups, *judging, batch.metrics); });
    const auto take = [&] { enough = filter.take(std::move(groups), counts, batch.metrics); };
    algorithm_.filter_groups.enable ? lane.run("filter", take) : take();
    enough = enough || !lane.is_mine();
  }
  batch.taken = filter.num_batches() * size;
  batch.groups = filter.result();
  if (is_rollout) record_lengths(batch.groups, batch.metrics);
  if (is_rollout && algorithm_.filter_groups.enable)
    batch.metrics.mean("training/num_gen_batches", static_cast<double>(filter.num_batches()));
  batches_.push_back(std::move(batch));
}

// Where each side waits for the other: for weights, and for a batch.
void OnlineStep::meet() {
  session::Session& session = context_.session;
  const auto begin = std::chrono::steady_clock::now();
  // All hear how many problems dynamic sampling has taken for the newest batch.
  const double taken = making_.is_mine() ? static_cast<double>(batches_.back().taken) : 0.0;
  batches_.back().taken = static_cast<int64_t>(session.world().all_reduce_scalar(taken, comm::ReduceOp::max));
  metrics_.record(true);
  metrics_.max(making_.is_mine() ? "timing_s/wait_update" : "timing_s/wait_prev_gen",
               std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  const int64_t staleness = batches_.front().staleness();
  TRIREME_CHECK(staleness <= rollout_.steps_ahead, "a batch is {} steps old", staleness);
  metrics_.max("training/staleness", static_cast<double>(staleness));
}

void OnlineStep::set_batches(Batches batches) {
  batches_ = std::move(batches);
  const auto too_old = std::find_if(batches_.begin(), batches_.end(), [&](const Batch& batch) {
    return batch.staleness() > rollout_.steps_ahead;
  });
  batches_.erase(too_old, batches_.end());
}

int64_t OnlineStep::updates_per_step() const {
  return actor_.ppo_epochs * ((data_.train_batch_size + mini_batch_size_ - 1) / mini_batch_size_);
}

OldPolicy OnlineStep::old_policy() const {
  const algorithms::RolloutCorrection& correction = algorithm_.rollout_correction;
  if ((context_.models.is_exact() && !goes_ahead_) || correction.bypass_mode) return OldPolicy::sampled;
  return updates_per_step() > 1 || correction.is_on() ? OldPolicy::recomputed : OldPolicy::itself;
}

// What ranks of a replica do alike is recorded by one of them.
void OnlineStep::record_as(Role role) {
  metrics_.record(context_.session.speaks_for_replica(role));
}

Generated OnlineStep::generate(Batch& batch, int64_t taken, int64_t first_id) {
  auto generated = generate_groups(context_, data_, rollout_, {batch.step, taken, first_id}, batch.metrics);
  record_engine(context_, batch.metrics);
  record_tokens(generated.groups, batch.metrics);
  return generated;
}

void OnlineStep::greedy_scores(std::vector<Group>& groups, Batch& batch) {
  std::vector<Sample> responses;
  const auto scores = greedy_responses(context_, data_, groups, batch.step, responses).scores(batch.metrics);
  for (size_t i = 0; i < groups.size(); ++i)
    groups[i].greedy_score = scores[i].value + overlong_penalty(responses[i].length());
  greedy_.clear();
  if (context_.reward_input)
    for (size_t i = 0; i < groups.size(); ++i)
      greedy_.push_back({groups[i].id, groups[i].problem, groups[i].prompt, 0.0, {std::move(responses[i])}});
}

// Collective over: world.
void OnlineStep::model_scores(std::vector<Group>& groups, Batch& batch) {
  judge_by_model(context_, groups, batch.metrics);
  const bool is_rollout = context_.session.has(Role::rollout);
  batch.metrics.record(is_rollout && context_.session.speaks_for_replica(Role::rollout));
  if (!algorithms::needs_of(algorithm_.adv_estimator).greedy_response) return;
  StepMetrics apart;  // reward/model is of the responses that are learned from
  judge_by_model(context_, greedy_, apart);
  for (size_t i = 0; i < greedy_.size(); ++i)
    groups[i].greedy_score += context_.reward_input->weight * greedy_[i].samples[0].model_score;
}

// The judgements, most of which were made while others were generated, less what overlong responses lose.
void OnlineStep::score(std::vector<Group>& groups, Judging& judging, StepMetrics& metrics) {
  const auto scores = judging.scores(metrics);
  auto score = scores.begin();
  const bool has_greedy = algorithms::needs_of(algorithm_.adv_estimator).greedy_response;
  for (Group& group : groups) {
    if (has_greedy) metrics.mean("critic/greedy_score/mean", group.greedy_score);
    for (Sample& sample : group.samples) {
      const double penalty = overlong_penalty(sample.length());
      if (algorithm_.overlong_buffer.enable) metrics.mean("reward/overlong/mean", penalty);
      sample.score = score->value + penalty;
      if (context_.reward_input) sample.score += context_.reward_input->weight * sample.model_score;
      sample.correct = (score++)->correct;
    }
  }
}

// From rollout's groups, which stayed, to the actor's. Collective over: world.
void OnlineStep::late_scores(std::vector<Group> judged, std::vector<Group>& groups) {
  all_.run("reward", context_.session.has(Role::rollout), [&] {
    record_as(Role::rollout);
    score(judged, *judging_, metrics_);
  });
  all_.run("exchange", [&] {
    GroupNumbers mine;
    for (const Group& group : judged)
      for (std::vector<double>& numbers = mine[group.id]; const Sample& sample : group.samples)
        numbers.insert(numbers.end(), {sample.score, sample.correct ? 1.0 : 0.0});
    const GroupNumbers numbers = share_numbers(context_.session, mine, Role::rollout);
    for (Group& group : groups)
      for (auto next = numbers.at(group.id).begin(); Sample& sample : group.samples) {
        sample.score = *next++;
        sample.correct = *next++ != 0;
      }
  });
}

double OnlineStep::overlong_penalty(int64_t response_length) const {
  return algorithms::overlong_penalty(response_length, data_.max_response_length, algorithm_.overlong_buffer);
}

void OnlineStep::reference_log_probs(std::vector<Group>& groups) {
  const auto present = context_.models.reference_memory.weights();
  score_tokens(*context_.models.reference_passes, groups, rollout_.sampling.temperature,
               actor_.ppo_max_token_len_per_rank, [](Sample& sample, std::vector<float> log_probs) {
                 sample.ref_log_probs = std::move(log_probs);
               });
}

void OnlineStep::old_log_probs(std::vector<Group>& groups) {
  const auto present = context_.models.actor_memory.weights();
  score_tokens(
      *context_.models.actor_passes, groups, rollout_.sampling.temperature, actor_.ppo_max_token_len_per_rank,
      [](Sample& sample, std::vector<float> log_probs) { sample.old_log_probs = std::move(log_probs); });
}

void OnlineStep::critic_values(std::vector<Group>& groups) {
  const auto present = context_.models.critic_memory.weights();
  value_tokens(*context_.models.critic_passes, groups, critic_.ppo_max_token_len_per_rank);
}

void OnlineStep::advantages(std::vector<Group>& groups) {
  record_as(Role::actor);
  assign_credit(groups, algorithm_, kl_, context_.session.dp(Role::actor), metrics_);
  correct_rollout(groups, algorithm_.rollout_correction, rejections_, metrics_);
}

void OnlineStep::update_values(std::vector<Group> groups, int64_t step, int64_t total_steps) {
  record_as(Role::critic);
  const int64_t per_pass = (data_.train_batch_size + critic_mini_batch_size_ - 1) / critic_mini_batch_size_;
  CriticUpdate update;
  update.lr = optim::learning_rate(critic_.optim, step, total_steps);
  update.max_response_length = data_.max_response_length;
  update.part = 1.0 / static_cast<double>(critic_.ppo_epochs * per_pass);
  metrics_.mean("critic/lr", update.lr);
  const auto present = context_.models.critic_memory.weights();  // from mini-batch to mini-batch
  for_each_mini_batch(groups, critic_.ppo_epochs, critic_mini_batch_size_, [&](std::span<Group> part) {
    update_critic(context_, part, critic_, update, metrics_);
  });
}

void OnlineStep::update_actor(std::vector<Group>& groups, int64_t step, int64_t total_steps) {
  record_as(Role::actor);
  PolicyUpdate update;
  update.lr = optim::learning_rate(actor_.optim, step, total_steps);
  update.temperature = rollout_.sampling.temperature;
  update.max_response_length = data_.max_response_length;
  update.old = old_policy();
  update.part = 1.0 / static_cast<double>(updates_per_step());
  update.seed = context_.seed ^ static_cast<uint64_t>(step) << 40;
  metrics_.mean("actor/lr", update.lr);
  const auto present = context_.models.actor_memory.weights();  // from mini-batch to mini-batch
  if (actor_.loss.use_kl_loss) metrics_.mean("actor/kl_coef", actor_.loss.kl_loss_coef);
  metrics_.max("global_seqlen/balanced_max", static_cast<double>(tokens_of(groups)));
  metrics_.min("global_seqlen/balanced_min", static_cast<double>(tokens_of(groups)));
  for_each_mini_batch(groups, actor_.ppo_epochs, mini_batch_size_, [&](std::span<Group> part) {
    update_policy(context_, part, actor_, update, metrics_);
    update.first = false;
    update.seed += 1 << 20;
  });
}

void OnlineStep::for_each_mini_batch(std::vector<Group>& groups, int64_t epochs, int64_t size,
                                     const std::function<void(std::span<Group>)>& update) const {
  // Ascending ids: a mini-batch is a range of the batch's prompts, the same for any number of ranks.
  std::sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) { return a.id < b.id; });
  const auto below = [&](int64_t id) {
    return std::partition_point(groups.begin(), groups.end(),
                                [&](const Group& group) { return group.id < id; });
  };
  for (int64_t epoch = 0; epoch < epochs; ++epoch)
    for (int64_t first = 0; first < data_.train_batch_size; first += size)
      update({below(first), below(first + size)});
}

// Rollout's are as many as it was given prompts; from then on they are shared out by cost, and stay where
// roles have the same replicas.
std::vector<Group> OnlineStep::send_to(Role to, std::vector<Group> groups, Role from) {
  session::Session& session = context_.session;
  if (from != Role::rollout && session.roles().mesh(from).replicas() == session.roles().mesh(to).replicas())
    return groups;
  return send_groups(session, to, std::move(groups), from);
}

}  // namespace trireme::steps
