#include "trainer/steps/dpo_step.h"

#include <numeric>

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>

#include "trainer/data/order.h"
#include "trainer/data/pair_tokens.h"
#include "trainer/losses/preference_loss.h"
#include "trainer/steps/group_exchange.h"
#include "trainer/steps/preference_update.h"
#include "trainer/steps/token_values.h"

namespace trireme::steps {

using placement::Role;

DpoStep::DpoStep(StepContext& context, const data::DataConfig& data, const losses::PreferenceLossConfig& loss,
                 const ActorConfig& actor)
    : context_(context),
      data_(data),
      loss_(loss),
      actor_(actor),
      reader_(context.session.roles().reference.empty() ? Role::actor : Role::reference) {}

observe::Metrics DpoStep::run(int64_t step, int64_t total_steps, int64_t taken) {
  pipeline::StageRunner& stages = context_.stages;
  session::Session& session = context_.session;
  metrics_ = {};
  const double lr = optim::learning_rate(actor_.optim, step, total_steps);
  metrics_.mean("actor/lr", lr);
  std::vector<Group> pairs;
  stages.run("data", session.has(reader_), [&] {
    pairs = read_pairs(context_.problems.train,
                       data::batch_indices(static_cast<int64_t>(context_.problems.train.size()),
                                           data_.train_batch_size, taken, context_.seed, data_.shuffle));
  });
  if (reader_ == Role::reference)
    stages.run("ref", session.has(Role::reference), [&] { judge_by_reference(pairs); });
  stages.run("exchange", [&] { pairs = send_groups(session, Role::actor, std::move(pairs), reader_); });
  stages.run("update_actor", session.has(Role::actor), [&] {
    metrics_.record(session.speaks_for_replica(Role::actor));  // its ranks do the same
    update_preferences(context_, pairs, actor_, loss_, {lr, data_.train_batch_size}, metrics_);
  });
  stages.run("update_weights", [&] { publish_weights(context_.models); });
  return metrics_.reduce(session.world());
}

// This replica's share of the problems that `indices` name.
std::vector<Group> DpoStep::read_pairs(const std::vector<data::Problem>& problems,
                                       const std::vector<int64_t>& indices) const {
  const auto replicas = static_cast<size_t>(context_.session.roles().mesh(reader_).dp);
  std::vector<Group> pairs;
  for (auto i = static_cast<size_t>(context_.session.place_in(reader_).d); i < indices.size();
       i += replicas) {
    data::PairTokens tokens =
        data::pair_tokens(problems[static_cast<size_t>(indices[i])], context_.tokenizer, data_);
    Group& pair = pairs.emplace_back();
    pair.id = static_cast<int64_t>(i);
    pair.problem = indices[i];
    pair.prompt = std::move(tokens.prompt);
    pair.samples.resize(2);
    pair.samples[0].tokens = std::move(tokens.chosen);
    pair.samples[1].tokens = std::move(tokens.rejected);
  }
  return pairs;
}

void DpoStep::judge_by_reference(std::vector<Group>& pairs) const {
  const auto present = context_.models.reference_memory.weights();
  score_tokens(
      *context_.models.reference_passes, pairs, 1.0, actor_.ppo_max_token_len_per_rank,
      [](Sample& answer, std::vector<float> log_probs) { answer.ref_log_probs = std::move(log_probs); });
}

observe::Metrics DpoStep::evaluate() {
  session::Session& session = context_.session;
  metrics_ = {};
  if (!held_out_) {
    std::vector<int64_t> all(context_.problems.val.size());
    std::iota(all.begin(), all.end(), 0);
    std::vector<Group> pairs;
    if (session.has(reader_)) pairs = read_pairs(context_.problems.val, all);
    if (session.has(Role::reference)) judge_by_reference(pairs);
    held_out_ = send_groups(session, Role::actor, std::move(pairs), reader_);
  }
  if (session.has(Role::actor)) judge_held_out(*held_out_);
  return metrics_.reduce(session.world());
}

void DpoStep::judge_held_out(std::vector<Group>& pairs) {
  const auto present = context_.models.actor_memory.weights();
  score_tokens(
      *context_.models.actor_passes, pairs, 1.0, actor_.ppo_max_token_len_per_rank,
      [](Sample& answer, std::vector<float> log_probs) { answer.old_log_probs = std::move(log_probs); });
  metrics_.record(context_.session.speaks_for_replica(Role::actor));
  if (pairs.empty()) return;
  std::vector<double> log_probs, log_ratios, tokens;
  for (const Group& pair : pairs)
    for (const Sample& answer : pair.samples) {
      const auto sum = [](const std::vector<float>& values) {
        return std::accumulate(values.begin(), values.end(), 0.0);
      };
      log_probs.push_back(sum(answer.old_log_probs));
      log_ratios.push_back(sum(answer.old_log_probs) - sum(answer.ref_log_probs));
      tokens.push_back(static_cast<double>(answer.length()));
    }
  const auto by_pair = [](const std::vector<double>& values) {
    return at::tensor(values, at::kDouble).view({-1, 2});
  };
  const losses::PreferencePairs judged = losses::pairs_of(by_pair(log_ratios), by_pair(tokens));
  metrics_.mean("val/dpo/loss", losses::preference_losses(judged, loss_).mean().item<double>(),
                static_cast<double>(pairs.size()));
  record_preferences("val/", judged, loss_, by_pair(log_probs), metrics_);
}

}  // namespace trireme::steps
