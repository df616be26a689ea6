#include "trainer/steps/critic_update.h"

#include <cmath>

#include "trainer/losses/value_loss.h"
#include "trainer/steps/mini_batch.h"
#include "trainer/steps/passes.h"

namespace trireme::steps {

void update_critic(StepContext& context, std::span<Group> groups, const CriticConfig& critic,
                   const CriticUpdate& update, StepMetrics& metrics) {
  RoleModels& models = context.models;
  sharding::TrainedParameters& parameters = *models.critic_parameters;
  const auto present = models.critic_memory.weights();
  comm::Communicator& replicas = context.session.dp(placement::Role::critic);
  losses::BatchTotals totals = totals_of(groups, replicas, models.critic->device());
  totals.scale = update.max_response_length;

  const std::vector<MicroBatch> micros =
      micro_batches(groups, {critic.ppo_max_token_len_per_rank, *models.critic}, parameters.is_exact());
  train(*models.critic_passes, micros, [&](const MicroBatch& micro, const at::Tensor& hidden) {
    const Beside beside(micro, models.critic->device());
    losses::ValueTokens tokens;
    tokens.values_N = models.critic->row_values(hidden, micro.rows);
    tokens.old_values_N = beside.list(&Sample::values);
    tokens.returns_N = beside.list(&Sample::returns);
    tokens.weights_N = beside.weights(critic.loss_agg_mode, totals);
    tokens.shares_N = beside.shares(totals);
    const losses::ValueLoss value = losses::value_loss(tokens, critic.cliprange_value);
    metrics.sum("critic/vf_loss", update.part * value.loss.item<double>());
    metrics.sum("critic/vf_clipfrac", update.part * value.clipped);
    metrics.sum("critic/vpred_mean", update.part * value.mean);
    return value.loss;
  });
  const double norm = finish_update(parameters, models.critic_memory, *models.critic_optimizer, update.lr);
  metrics.mean("critic/grad_norm", norm);
  if (!std::isfinite(norm)) metrics.sum("critic/skipped_updates", 1.0 / replicas.size());
}

}  // namespace trireme::steps
