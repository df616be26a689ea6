#include "trainer/steps/policy_update.h"

#include <cmath>
#include <limits>

#include <ATen/TensorOperators.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include "trainer/losses/aggregation.h"
#include "trainer/losses/kl_estimate.h"
#include "trainer/losses/policy_loss.h"
#include "trainer/models/tensor_view.h"
#include "trainer/steps/token_values.h"

namespace trireme::steps {

using placement::Role;

namespace {

// Exact sums are made of gradients of one group each, whatever fits beside it.
std::vector<MicroBatch> micro_batches(std::span<Group> groups, int64_t max_rows, bool exact) {
  if (!exact) return pack_groups(groups, max_rows);
  std::vector<MicroBatch> result;
  for (Group& group : groups)
    for (MicroBatch& micro : pack_groups({&group, 1}, std::numeric_limits<int64_t>::max()))
      result.push_back(std::move(micro));
  return result;
}

// The group of a micro-batch's first response: what names it on any rank.
int64_t id_of_first(std::span<const Group> groups, const MicroBatch& micro) {
  const Sample* first = micro.samples.front().sample;
  for (const Group& group : groups)
    for (const Sample& sample : group.samples)
      if (&sample == first) return group.id;
  return 0;
}

losses::BatchTotals totals_of(std::span<const Group> groups, comm::Communicator& replicas,
                              at::Device device) {
  int64_t sequences = 0, tokens = 0;
  for (const Group& group : groups)
    for (const Sample& sample : group.samples) {
      sequences += sample.counted() > 0 ? 1 : 0;
      tokens += sample.counted();
    }
  at::Tensor counts = at::zeros({2}, at::kLong);
  counts[0] = sequences;
  counts[1] = tokens;
  counts = counts.to(device);  // where the group's communicator takes it
  replicas.all_reduce(models::view_of(counts));
  return {counts[0].item<int64_t>(), counts[1].item<int64_t>(), 0};
}

// Everything of a micro-batch that stands beside its tokens.
class Beside {
 public:
  Beside(const MicroBatch& micro, at::Device device) : micro_(micro), device_(device) {}

  at::Tensor list(std::vector<float> Sample::*values) const {
    return per_token(micro_, device_,
                     [values](const Sample& s, int64_t t) { return (s.*values)[static_cast<size_t>(t)]; });
  }
  /// One number for all tokens of a response that are learned from; 0 for the others.
  at::Tensor of_responses(const std::function<double(const Sample&)>& value) const {
    std::vector<float> numbers(static_cast<size_t>(micro_.num_pairs()), 0.0F);
    for (const PackedSample& packed : micro_.samples) {
      const auto number = static_cast<float>(value(*packed.sample));
      for (int64_t t = 0; t < packed.sample->length(); ++t)
        if (packed.sample->counts(t)) numbers[static_cast<size_t>(packed.begin + t)] = number;
    }
    return at::from_blob(numbers.data(), {micro_.num_pairs()}, at::kFloat).clone().to(device_);
  }
  at::Tensor weights(const std::string& aggregation, const losses::BatchTotals& totals) const {
    return of_responses(
        [&](const Sample& s) { return losses::token_weight(aggregation, s.counted(), totals); });
  }
  at::Tensor lengths() const {
    std::vector<int64_t> lengths;
    for (const PackedSample& packed : micro_.samples) lengths.push_back(packed.sample->length());
    return at::from_blob(lengths.data(), {static_cast<int64_t>(lengths.size())}, at::kLong)
        .clone()
        .to(device_);
  }

 private:
  const MicroBatch& micro_;
  at::Device device_;
};

losses::PolicyTokens tokens_of(const Beside& beside, const at::Tensor& log_probs, OldPolicy old,
                               const losses::BatchTotals& totals, const losses::PolicyLossConfig& config) {
  losses::PolicyTokens tokens;
  tokens.log_probs_N = log_probs;
  tokens.old_log_probs_N = old == OldPolicy::sampled      ? beside.list(&Sample::rollout_log_probs)
                           : old == OldPolicy::recomputed ? beside.list(&Sample::old_log_probs)
                                                          : log_probs.detach();
  tokens.advantages_N = beside.list(&Sample::advantages);
  tokens.weights_N = beside.weights(losses::aggregation_of(config), totals);
  tokens.shares_N =
      beside.of_responses([&](const Sample&) { return 1.0 / static_cast<double>(totals.tokens); });
  tokens.lengths_S = beside.lengths();
  return tokens;
}

}  // namespace

void update_policy(StepContext& context, std::span<Group> groups, const ActorConfig& actor,
                   const PolicyUpdate& update, StepMetrics& metrics) {
  RoleModels& models = context.models;
  sharding::TrainedParameters& parameters = *models.actor_parameters;
  comm::Communicator& replicas = context.session.dp(Role::actor);
  const at::Device device = models.actor->device();
  const losses::PolicyLossConfig& config = actor.loss;
  losses::BatchTotals totals = totals_of(groups, replicas, device);
  totals.scale = config.loss_scale_factor > 0 ? config.loss_scale_factor : update.max_response_length;

  std::vector<MicroBatch> micros =
      micro_batches(groups, actor.ppo_max_token_len_per_rank, parameters.is_exact());
  parameters.begin_update(micros.size());
  for (const MicroBatch& micro : micros) {
    const at::Tensor hidden = models.actor->forward_packed(micro.batch);
    const auto [log_probs, entropy] = models.actor->token_log_probs(
        hidden, micro.rows, micro.tokens, update.temperature, config.entropy_coeff != 0.0);
    const Beside beside(micro, device);
    losses::PolicyTokens tokens = tokens_of(beside, log_probs, update.old, totals, config);
    if (!micro.samples.front().sample->importance.empty())
      tokens.importance_N = beside.list(&Sample::importance);
    tokens.seed = update.seed + static_cast<uint64_t>(id_of_first(groups, micro));

    const losses::PolicyLoss policy = losses::policy_loss(tokens, config);
    at::Tensor loss = policy.loss;
    metrics.sum("actor/pg_loss", update.part * policy.loss.item<double>());
    metrics.sum("actor/pg_clipfrac", update.part * policy.metrics.clipped);
    metrics.sum("actor/pg_clipfrac_lower", update.part * policy.metrics.clipped_lower);
    metrics.sum("actor/ppo_kl", update.part * policy.metrics.kl_to_old);
    if (config.use_kl_loss || config.entropy_coeff != 0.0) {
      const at::Tensor weights = beside.weights(config.loss_agg_mode, totals);
      if (config.use_kl_loss) {
        const at::Tensor kl =
            (losses::kl_estimate(log_probs, beside.list(&Sample::ref_log_probs), config.kl_loss_type) *
             weights)
                .sum();
        loss = loss + config.kl_loss_coef * kl;
        metrics.sum("actor/kl_loss", update.part * kl.item<double>());
      }
      if (config.entropy_coeff != 0.0) {
        const at::Tensor bonus = (entropy * weights).sum();
        loss = loss - config.entropy_coeff * bonus;
        metrics.sum("actor/entropy_loss", update.part * bonus.item<double>());
      }
    }
    loss.backward();
    parameters.end_backward();
    if (!update.first) continue;
    const at::Tensor apart = (log_probs.detach().exp() - beside.list(&Sample::rollout_log_probs).exp()).abs();
    metrics.mean("training/rollout_probs_diff_mean", apart.mean().item<double>(),
                 static_cast<double>(micro.num_pairs()));
    metrics.max("training/rollout_probs_diff_max", apart.max().item<double>());
    metrics.deviation("training/rollout_probs_diff_std", apart);
  }
  const double norm = parameters.sum_gradient();
  models.optimizer->step(update.lr, norm);
  publish_actor(models);
  metrics.mean("actor/grad_norm", norm);
  if (!std::isfinite(norm)) metrics.sum("actor/skipped_updates", 1.0 / replicas.size());
}

}  // namespace trireme::steps
