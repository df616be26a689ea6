#include "trainer/steps/online_step.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "trainer/algorithms/estimators.h"
#include "trainer/steps/credit.h"
#include "trainer/steps/critic_update.h"
#include "trainer/steps/group_exchange.h"
#include "trainer/steps/mini_batch.h"
#include "trainer/steps/token_values.h"

namespace trireme::steps {

using placement::Role;

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// The ranks that make batches, or those that learn from them; null on the others.
comm::Communicator* lane_of(session::Session& session, bool side_by_side, bool makes) {
  if (!side_by_side) return &session.world();
  const std::vector<int> training = session.roles().training();
  if (std::binary_search(training.begin(), training.end(), session.rank()) == makes) return nullptr;
  return makes ? &session.generating().host() : &session.training().host();
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
      stream_(rollout.stream ? std::make_unique<GroupStream>(context.session, data.train_batch_size, mini_batch_size_)
                             : nullptr),
      maker_(context, data, rollout, algorithm_, stream_.get()),
      all_(context.stages, &context.session.world()),
      making_(context.stages, lane_of(context.session, goes_ahead_ || stream_, true)),
      learning_(context.stages, lane_of(context.session, goes_ahead_ || stream_, false)) {}

observe::Metrics OnlineStep::run(int64_t step, int64_t total_steps, int64_t taken) {
  session::Session& session = context_.session;
  const bool is_actor = session.has(Role::actor), is_critic = session.has(Role::critic);
  const auto& roles = session.roles();
  const auto ahead = static_cast<size_t>(rollout_.steps_ahead), left = static_cast<size_t>(total_steps - step);
  const int64_t batch_size = data_.train_batch_size;
  metrics_ = {};
  waited_ = 0.0;

  // What nobody could make meanwhile: this step's batch, or the first ones of a run that goes ahead.
  while (batches_.size() < std::min(left, std::max<size_t>(1, ahead)))
    make_batch(stream_ ? making_ : all_, step, taken);
  Batch& batch = batches_.front();
  metrics_.add(batch.metrics);

  // All that models say of a batch, or of what has come of it, before anything is learned from it. Rollout's
  // ranks pass by what follows, where they work meanwhile.
  const auto read = [&](std::vector<Group> groups) {
    Role holder = Role::rollout;
    const auto hand_to = [&](Role to) {
      if (stream_ && holder == Role::rollout)
        learning_.run("wait", [&] { groups = receive(to); });
      else
        (holder == Role::rollout ? all_ : learning_).run("exchange", [&] {
          groups = send_to(to, std::move(groups), holder);
        });
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
    return groups;
  };
  const bool updates_actor = step + 1 >= critic_.critic_warmup;
  begin_updates(step, total_steps);
  const auto learn = [&](std::vector<Group>& groups, int64_t first_id, int64_t last_id) {
    learning_.run("adv", is_actor, [&] { advantages(groups); });
    if (!roles.critic.empty()) {
      std::vector<Group> for_critic;
      learning_.run("exchange", [&] { for_critic = send_to(Role::critic, groups, Role::actor); });
      learning_.run("update_critic", is_critic,
                    [&] { update_values(std::move(for_critic), step, total_steps); });
    }
    if (updates_actor)
      learning_.run("update_actor", is_actor, [&] { update_actor(groups, first_id, last_id); });
  };

  std::vector<Group> groups;
  if (stream_) {
    const bool at_once = learns_late_because().empty();
    for (int64_t first = 0; first < batch_size; first += mini_batch_size_) {
      std::vector<Group> some = read({});
      if (at_once) learn(some, first, std::min(first + mini_batch_size_, batch_size));
      std::move(some.begin(), some.end(), std::back_inserter(groups));
    }
    if (!at_once) learn(groups, 0, batch_size);
  } else {
    groups = read(std::move(batch.groups));
    if (maker_.scores_late()) maker_.bring_scores(all_, groups, metrics_);
    learn(groups, 0, batch_size);
  }
  if (is_actor) record_balance(groups);

  if (goes_ahead_ && left > ahead) make_batch(making_, step, taken);
  if (goes_ahead_ || stream_) all_.run("wait", [&] { meet(); });
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
  maker_.make(lane, taken, batch);
  batches_.push_back(std::move(batch));
}

// The next part of what is streamed.
std::vector<Group> OnlineStep::receive(Role to) {
  const auto begin = Clock::now();
  std::vector<Group> groups = stream_->receive(to);
  waited_ += seconds_since(begin);
  return groups;
}

// Where each side waits for the other: for weights, and for a batch.
void OnlineStep::meet() {
  session::Session& session = context_.session;
  const auto begin = Clock::now();
  if (stream_) stream_->finish();
  // All hear how many problems dynamic sampling has taken for the newest batch.
  const double taken = making_.is_mine() ? static_cast<double>(batches_.back().taken) : 0.0;
  batches_.back().taken = static_cast<int64_t>(session.world().all_reduce_scalar(taken, comm::ReduceOp::max));
  metrics_.record(true);
  metrics_.max(making_.is_mine() ? "timing_s/wait_update" : "timing_s/wait_prev_gen",
               waited_ + seconds_since(begin));
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

std::string OnlineStep::learns_late_because() const {
  const algorithms::Estimator& estimator = algorithms::find_estimator(algorithm_.adv_estimator);
  if (!stream_) return "";
  if (!context_.session.roles().critic.empty()) return "the critic reads all of it before it learns";
  if (recomputes_old_log_probs()) return "the actor computes old log-probabilities again, all by the same weights";
  if (estimator.over_batch) return fmt::format("algorithm.adv_estimator = \"{}\" looks at all of it", estimator.name);
  if (algorithm_.use_kl_in_reward) return "algorithm.use_kl_in_reward looks at all of it";
  if (actor_.ppo_epochs > 1) return fmt::format("actor.ppo_epochs = {} goes over all of it", actor_.ppo_epochs);
  return "";
}

// What ranks of a replica do alike is recorded by one of them.
void OnlineStep::record_as(Role role) {
  metrics_.record(context_.session.speaks_for_replica(role));
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
  for (int64_t epoch = 0; epoch < critic_.ppo_epochs; ++epoch)
    for_each_mini_batch(groups, 0, data_.train_batch_size, critic_mini_batch_size_, [&](std::span<Group> part) {
      update_critic(context_, part, critic_, update, metrics_);
    });
}

void OnlineStep::begin_updates(int64_t step, int64_t total_steps) {
  update_ = {};
  update_.lr = optim::learning_rate(actor_.optim, step, total_steps);
  update_.temperature = rollout_.sampling.temperature;
  update_.max_response_length = data_.max_response_length;
  update_.old = old_policy();
  update_.part = 1.0 / static_cast<double>(updates_per_step());
  update_.seed = context_.seed ^ static_cast<uint64_t>(step) << 40;
}

// By the mini-batches of the prompts from `first_id` to `last_id`.
void OnlineStep::update_actor(std::vector<Group>& groups, int64_t first_id, int64_t last_id) {
  record_as(Role::actor);
  metrics_.mean("actor/lr", update_.lr);
  if (actor_.loss.use_kl_loss) metrics_.mean("actor/kl_coef", actor_.loss.kl_loss_coef);
  const auto present = context_.models.actor_memory.weights();  // from mini-batch to mini-batch
  for (int64_t epoch = 0; epoch < actor_.ppo_epochs; ++epoch)
    for_each_mini_batch(groups, first_id, last_id, mini_batch_size_, [&](std::span<Group> part) {
      update_policy(context_, part, actor_, update_, metrics_);
      update_.first = false;
      update_.seed += 1 << 20;
    });
}

void OnlineStep::record_balance(const std::vector<Group>& groups) {
  record_as(Role::actor);
  metrics_.max("global_seqlen/balanced_max", static_cast<double>(tokens_of(groups)));
  metrics_.min("global_seqlen/balanced_min", static_cast<double>(tokens_of(groups)));
}

// Rollout's are as many as it was given prompts; from then on they are shared out by cost, and stay where
// roles have the same replicas.
std::vector<Group> OnlineStep::send_to(Role to, std::vector<Group> groups, Role from) {
  session::Session& session = context_.session;
  if (from != Role::rollout && session.roles().mesh(from).replicas() == session.roles().mesh(to).replicas())
    return groups;
  return send_groups(session, to, std::move(groups), from, mini_batch_size_);
}

}  // namespace trireme::steps
