#include "trainer/steps/online_step.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>

#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/tensors/sequence_exchange.h"
#include "trainer/algorithms/advantages.h"
#include "trainer/data/order.h"
#include "trainer/losses/policy_loss.h"
#include "trainer/models/tensor_view.h"
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
      mini_batch_size_(actor.ppo_mini_batch_size > 0 ? actor.ppo_mini_batch_size : data.train_batch_size) {}

observe::Metrics OnlineStep::run(int64_t step, int64_t total_steps, int64_t taken) {
  pipeline::StageRunner& stages = context_.stages;
  session::Session& session = context_.session;
  const bool is_actor = session.has(Role::actor), is_rollout = session.has(Role::rollout);
  const auto& roles = session.roles();
  metrics_ = {};
  std::vector<Group> groups;

  stages.run("gen", is_rollout, [&] { groups = generate(step, taken); });
  stages.run("reward", is_rollout, [&] { score(groups); });
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

// What ranks of a replica do alike is recorded by the first of them.
void OnlineStep::record_as(Role role) {
  metrics_.record(context_.session.place_in(role).t == 0);
}

// This replica's share of the batch's prompts, each answered n times.
std::vector<Group> OnlineStep::generate(int64_t step, int64_t taken) {
  const auto& problems = context_.problems.train;
  const auto batch = data::batch_indices(static_cast<int64_t>(problems.size()), data_.train_batch_size, taken,
                                         context_.seed, data_.shuffle);
  const placement::Mesh replicas = context_.session.roles().mesh(Role::rollout);
  record_as(Role::rollout);
  std::vector<Group> groups;
  std::vector<rollout::Request> requests;
  for (int64_t id = context_.session.place_in(Role::rollout).d; id < data_.train_batch_size;
       id += replicas.dp) {
    const data::Problem& problem = problems[static_cast<size_t>(batch[static_cast<size_t>(id)])];
    Group& group = groups.emplace_back();
    group.id = id;
    group.problem = batch[static_cast<size_t>(id)];
    group.prompt = problem.prompt_ids;
    metrics_.spread("prompt_length", static_cast<double>(group.prompt.size()));
    metrics_.mean("prompt_length/clip_ratio",
                  static_cast<int64_t>(group.prompt.size()) >= data_.max_prompt_length ? 1.0 : 0.0);
    rollout::Request request;
    request.id = id;
    request.prompt = group.prompt;
    request.n = rollout_.n;
    request.sampling = rollout_.sampling;
    request.max_new_tokens = context_.models.engine->max_new_tokens(request, data_.max_response_length);
    request.seed = context_.seed;
    request.step = step;
    requests.push_back(std::move(request));
  }
  auto completions = context_.models.engine->generate(std::move(requests));
  for (size_t i = 0; i < groups.size(); ++i)
    for (rollout::Response& response : completions[i].responses) {
      for (const float entropy : response.entropies) metrics_.mean("actor/entropy", entropy);
      Sample& sample = groups[i].samples.emplace_back();
      sample.tokens = std::move(response.tokens);
      sample.rollout_log_probs = std::move(response.log_probs);
      sample.stopped = response.stopped;
    }
  const double made = static_cast<double>(tokens_of(groups));
  metrics_.max("global_seqlen/max", made);
  metrics_.min("global_seqlen/min", made);
  metrics_.mean("global_seqlen/mean", made);
  metrics_.mean("training/epoch", static_cast<double>(taken / static_cast<int64_t>(problems.size())));
  const rollout::EngineStats stats = context_.models.engine->take_stats();
  metrics_.sum("rollout/generated_tokens", static_cast<double>(stats.generated_tokens));
  metrics_.max("rollout/num_running/max", static_cast<double>(stats.peak_running));
  metrics_.max("rollout/num_waiting/max", static_cast<double>(stats.peak_waiting));
  metrics_.max("rollout/pages_peak", static_cast<double>(stats.peak_pages));
  metrics_.max("rollout/pages_total", static_cast<double>(stats.total_pages));
  metrics_.sum("rollout/preemptions", static_cast<double>(stats.preemptions));
  metrics_.sum("rollout/recomputed_tokens", static_cast<double>(stats.recomputed_tokens));
  const auto mean = [&](const char* name, int64_t sum, int64_t count) {
    if (count > 0)
      metrics_.mean(name, static_cast<double>(sum) / static_cast<double>(count), static_cast<double>(count));
  };
  mean("rollout/num_running/mean", stats.running_sum, stats.steps);
  mean("rollout/num_waiting/mean", stats.waiting_sum, stats.steps);
  mean("rollout/prefix_hit_rate", stats.cached_prompt_tokens, stats.prompt_tokens);
  return groups;
}

void OnlineStep::score(std::vector<Group>& groups) {
  for (Group& group : groups) {
    const data::Problem& problem = context_.problems.train[static_cast<size_t>(group.problem)];
    for (Sample& sample : group.samples) {
      const rewards::Score score = context_.reward.score(
          problem.data_source, context_.tokenizer.decode(sample.tokens), problem.answer);
      sample.score = sample.reward = score.value;
      sample.correct = score.correct;
      metrics_.spread("critic/score", score.value);
      metrics_.mean("critic/acc/mean", score.correct ? 1.0 : 0.0);
      metrics_.spread("response_length", static_cast<double>(sample.length()));
      metrics_.mean("response_length/clip_ratio", sample.stopped ? 0.0 : 1.0);
      metrics_.sum("perf/total_num_tokens",
                   static_cast<double>(group.prompt.size()) + static_cast<double>(sample.length()));
    }
  }
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
  for (Group& group : groups) {
    std::vector<double> rewards;
    for (Sample& sample : group.samples) {
      if (algorithm_.use_kl_in_reward) {
        // verl's "kl" penalty: each token's reward is less by kl_coef times old - reference log-probability.
        const auto& old = sample.old_log_probs.empty() ? sample.rollout_log_probs : sample.old_log_probs;
        double kl = 0.0;
        for (size_t t = 0; t < old.size(); ++t)
          kl += static_cast<double>(old[t]) - static_cast<double>(sample.ref_log_probs[t]);
        sample.reward = sample.score - algorithm_.kl_coef * kl;
        metrics_.mean("actor/reward_kl_penalty_coeff", algorithm_.kl_coef);
        metrics_.mean("actor/reward_kl_penalty", kl / static_cast<double>(std::max<size_t>(1, old.size())));
      }
      metrics_.spread("critic/rewards", sample.reward);
      rewards.push_back(sample.reward);
    }
    const auto values = algorithms::grpo_advantages(rewards, algorithm_.norm_adv_by_std_in_grpo);
    for (size_t i = 0; i < values.size(); ++i) {
      group.samples[i].advantage = values[i];
      metrics_.spread("critic/advantages", values[i]);
      metrics_.spread("critic/returns", values[i]);  // as verl has it for critic-free estimators
    }
  }
}

void OnlineStep::update_actor(std::vector<Group>& groups, int64_t step, int64_t total_steps) {
  const double lr = optim::learning_rate(actor_.optim, step, total_steps);
  metrics_.mean("actor/lr", lr);
  if (actor_.loss.use_kl_loss) metrics_.mean("actor/kl_coef", actor_.loss.kl_loss_coef);
  metrics_.max("global_seqlen/balanced_max", static_cast<double>(tokens_of(groups)));
  metrics_.min("global_seqlen/balanced_min", static_cast<double>(tokens_of(groups)));
  // Ascending ids: a mini-batch is a range of the batch's prompts, the same for any number of ranks.
  std::sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) { return a.id < b.id; });
  for (int64_t epoch = 0; epoch < actor_.ppo_epochs; ++epoch)
    for (int64_t first = 0; first < data_.train_batch_size; first += mini_batch_size_) {
      const auto below = [&](int64_t id) {
        return std::partition_point(groups.begin(), groups.end(),
                                    [&](const Group& group) { return group.id < id; });
      };
      update_mini_batch(std::span<Group>(below(first), below(first + mini_batch_size_)), lr,
                        epoch == 0 && first == 0);
    }
}

// Exact sums are made of gradients of one group each, whatever fits beside it.
std::vector<MicroBatch> OnlineStep::micro_batches(std::span<Group> groups) const {
  if (!context_.models.actor_parameters->is_exact())
    return pack_groups(groups, actor_.ppo_max_token_len_per_rank);
  std::vector<MicroBatch> result;
  for (Group& group : groups)
    for (MicroBatch& micro : pack_groups({&group, 1}, std::numeric_limits<int64_t>::max()))
      result.push_back(std::move(micro));
  return result;
}

// One optimizer update: gradients of this rank's micro-batches, summed over ranks. Before the `first` the
// actor is the policy that sampled.
void OnlineStep::update_mini_batch(std::span<Group> groups, double lr, bool first) {
  RoleModels& models = context_.models;
  sharding::TrainedParameters& parameters = *models.actor_parameters;
  comm::Communicator& replicas = context_.session.dp(Role::actor);
  const at::Device device = models.actor->device();
  const auto& constants = actor_.loss;

  losses::BatchTotals totals;
  totals.max_response_length = data_.max_response_length;
  for (const Group& group : groups)
    for (const Sample& sample : group.samples) {
      totals.sequences += sample.tokens.empty() ? 0 : 1;
      totals.tokens += sample.length();
    }
  at::Tensor counts = at::zeros({2}, at::kLong);
  counts[0] = totals.sequences;
  counts[1] = totals.tokens;
  counts = counts.to(device);  // where the group's communicator takes it
  replicas.all_reduce(models::view_of(counts));
  totals.sequences = counts[0].item<int64_t>();
  totals.tokens = counts[1].item<int64_t>();

  // A step's loss is the mean over its updates.
  const double part = 1.0 / static_cast<double>(updates_per_step());
  std::vector<MicroBatch> micros = micro_batches(groups);
  parameters.begin_update(micros.size());
  for (MicroBatch& micro : micros) {
    const auto tokens = [&](const auto& value) { return per_token(micro, device, value); };
    const at::Tensor weights = tokens([&](const Sample& s, int64_t) {
      return losses::token_weight(constants.loss_agg_mode, s.length(), totals);
    });
    const at::Tensor share =
        tokens([&](const Sample&, int64_t) { return 1.0 / static_cast<double>(totals.tokens); });
    const at::Tensor advantages = tokens([](const Sample& s, int64_t) { return s.advantage; });

    const at::Tensor hidden = models.actor->forward_packed(micro.batch);
    const auto [log_probs, entropy] = models.actor->token_log_probs(
        hidden, micro.rows, micro.tokens, rollout_.sampling.temperature, constants.entropy_coeff != 0.0);
    const at::Tensor sampled =
        tokens([](const Sample& s, int64_t t) { return s.rollout_log_probs[static_cast<size_t>(t)]; });
    const at::Tensor old =
        models.is_exact() ? sampled
        : recomputes_old_log_probs()
            ? tokens([](const Sample& s, int64_t t) { return s.old_log_probs[static_cast<size_t>(t)]; })
            : log_probs.detach();
    auto policy = losses::policy_loss(log_probs, old, advantages, weights, share, constants);
    at::Tensor loss = policy.loss;
    metrics_.sum("actor/pg_loss", part * policy.loss.item<double>());
    metrics_.sum("actor/pg_clipfrac", part * policy.clipped);
    metrics_.sum("actor/pg_clipfrac_lower", part * policy.clipped_lower);
    metrics_.sum("actor/ppo_kl", part * policy.kl_to_old);
    if (constants.use_kl_loss) {
      const at::Tensor reference =
          tokens([](const Sample& s, int64_t t) { return s.ref_log_probs[static_cast<size_t>(t)]; });
      const at::Tensor kl =
          (losses::kl_estimate(log_probs, reference, constants.kl_loss_type) * weights).sum();
      loss = loss + constants.kl_loss_coef * kl;
      metrics_.sum("actor/kl_loss", part * kl.item<double>());
    }
    if (constants.entropy_coeff != 0.0) {
      const at::Tensor bonus = (entropy * weights).sum();
      loss = loss - constants.entropy_coeff * bonus;
      metrics_.sum("actor/entropy_loss", part * bonus.item<double>());
    }
    loss.backward();
    parameters.end_backward();
    if (!first) continue;
    const at::Tensor apart = (log_probs.detach().exp() - sampled.exp()).abs();
    metrics_.mean("training/rollout_probs_diff_mean", apart.mean().item<double>(),
                  static_cast<double>(micro.num_pairs()));
    metrics_.max("training/rollout_probs_diff_max", apart.max().item<double>());
    metrics_.deviation("training/rollout_probs_diff_std", apart);
  }
  const double norm = parameters.sum_gradient();
  models.optimizer->step(lr, norm);
  publish_actor(models);
  metrics_.mean("actor/grad_norm", norm);
  if (!std::isfinite(norm)) metrics_.sum("actor/skipped_updates", 1.0 / replicas.size());
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
