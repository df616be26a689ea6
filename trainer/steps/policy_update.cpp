#include "trainer/steps/policy_update.h"

#include <cmath>

#include <ATen/TensorOperators.h>

#include "trainer/losses/kl_estimate.h"
#include "trainer/losses/policy_loss.h"
#include "trainer/steps/mini_batch.h"
#include "trainer/steps/passes.h"

namespace trireme::steps {

using placement::Role;

namespace {

// The group of a micro-batch's first response: what names it on any rank.
int64_t id_of_first(std::span<const Group> groups, const MicroBatch& micro) {
  const Sample* first = micro.samples.front().sample;
  for (const Group& group : groups)
    for (const Sample& sample : group.samples)
      if (&sample == first) return group.id;
  return 0;
}

losses::PolicyTokens tokens_of(const Beside& beside, const at::Tensor& log_probs, OldPolicy old,
                               const losses::BatchTotals& totals, const losses::PolicyLossConfig& config) {
  losses::PolicyTokens tokens;
  tokens.log_probs_N = log_probs;
  tokens.old_log_probs_N = old == OldPolicy::sampled      ? beside.list(&Sample::rollout_log_probs)
                           : old == OldPolicy::recomputed ? beside.list(&Sample::old_log_probs)
                                                          : log_probs.detach();
  tokens.advantages_N = beside.list(&Sample::advantages);
  tokens.weights_N = beside.weights(losses::aggregation_of(config), totals);
  tokens.shares_N = beside.shares(totals);
  tokens.lengths_S = beside.lengths();
  return tokens;
}

}  // namespace

void update_policy(StepContext& context, std::span<Group> groups, const ActorConfig& actor,
                   const PolicyUpdate& update, StepMetrics& metrics) {
  RoleModels& models = context.models;
  sharding::TrainedParameters& parameters = *models.actor_parameters;
  const auto present = models.actor_memory.weights();
  comm::Communicator& replicas = context.session.dp(Role::actor);
  const at::Device device = models.actor->device();
  const losses::PolicyLossConfig& config = actor.loss;
  losses::BatchTotals totals = totals_of(groups, replicas, device);
  totals.scale = config.loss_scale_factor > 0 ? config.loss_scale_factor : update.max_response_length;

  // Exact sums are made of gradients of one group each, whatever fits beside it.
  const PassSize size(actor.ppo_max_token_len_per_rank, *models.actor);
  const std::vector<MicroBatch> micros =
      parameters.is_exact() ? pack_whole_groups(groups, {1, size.ranks}) : pack_groups(groups, size);
  const auto loss_of = [&](const MicroBatch& micro, const at::Tensor& hidden) {
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
        at::Tensor kl_N =
            losses::kl_estimate(log_probs, beside.list(&Sample::ref_log_probs), config.kl_loss_type);
        if (config.use_bias_correction_kl) kl_N = kl_N * losses::importance_ratio(tokens, config);
        const at::Tensor kl = (kl_N * weights).sum();
        loss = loss + config.kl_loss_coef * kl;
        metrics.sum("actor/kl_loss", update.part * kl.item<double>());
      }
      if (config.entropy_coeff != 0.0) {
        const at::Tensor bonus = (entropy * weights).sum();
        loss = loss - config.entropy_coeff * bonus;
        metrics.sum("actor/entropy_loss", update.part * bonus.item<double>());
      }
    }
    if (!update.first) return loss;
    const at::Tensor apart = (log_probs.detach().exp() - beside.list(&Sample::rollout_log_probs).exp()).abs();
    metrics.mean("training/rollout_probs_diff_mean", apart.mean().item<double>(),
                 static_cast<double>(micro.num_pairs()));
    metrics.max("training/rollout_probs_diff_max", apart.max().item<double>());
    metrics.deviation("training/rollout_probs_diff_std", apart);
    return loss;
  };
  train(*models.actor_passes, micros, loss_of);
  const double norm = finish_update(parameters, models.actor_memory, *models.optimizer, update.lr);
  metrics.mean("actor/grad_norm", norm);
  if (!std::isfinite(norm)) metrics.sum("actor/skipped_updates", 1.0 / replicas.size());
}

}  // namespace trireme::steps
