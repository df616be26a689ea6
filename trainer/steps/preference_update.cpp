#include "trainer/steps/preference_update.h"

#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/segment_reduce.h>
#include <ATen/ops/tensor.h>

#include "trainer/models/tensor_view.h"
#include "trainer/steps/packing.h"
#include "trainer/steps/passes.h"
#include "trainer/steps/token_values.h"

namespace trireme::steps {

using placement::Role;

namespace {

// Tokens of each answer of a micro-batch, chosen and rejected in turn.
at::Tensor answer_lengths(const MicroBatch& micro, at::Device device) {
  std::vector<int64_t> lengths;
  for (const PackedSample& packed : micro.samples) lengths.push_back(packed.sample->length());
  return at::tensor(lengths, at::kLong).to(device);
}

// Sums over the tokens of each answer: [P, 2].
at::Tensor answer_sums(const at::Tensor& values_N, const at::Tensor& lengths_S) {
  return at::segment_reduce(values_N.to(at::kDouble), "sum", lengths_S, {}, {}, 0, /*unsafe=*/true, 0.0)
      .view({-1, 2});
}

// Chosen tokens of the mini-batch, over all ranks.
double chosen_tokens(std::span<const Group> pairs, comm::Communicator& replicas, at::Device device) {
  int64_t tokens = 0;
  for (const Group& pair : pairs) tokens += pair.samples[0].length();
  const at::Tensor sum = at::tensor(tokens, at::kLong).to(device);
  replicas.all_reduce(models::view_of(sum));
  return static_cast<double>(sum.item<int64_t>());
}

}  // namespace

void update_preferences(StepContext& context, std::span<Group> pairs, const ActorConfig& config,
                        const losses::PreferenceLossConfig& loss_config, const PreferenceUpdate& update,
                        StepMetrics& metrics) {
  RoleModels& models = context.models;
  comm::Communicator& replicas = context.session.dp(Role::actor);
  const models::Decoder& actor = *models.actor;
  sharding::TrainedParameters& parameters = *models.actor_parameters;
  const auto present = models.actor_memory.weights();
  const auto tokens = static_cast<double>(tokens_of(pairs));
  metrics.sum("perf/total_num_tokens", tokens);
  metrics.max("global_seqlen/balanced_max", tokens);
  metrics.min("global_seqlen/balanced_min", tokens);
  const double sft_weight =
      loss_config.sft_coef > 0 ? loss_config.sft_coef / chosen_tokens(pairs, replicas, actor.device()) : 0.0;

  // Exact sums are made of gradients of one pair each.
  const std::vector<MicroBatch> micros =
      pack_whole_groups(pairs, {parameters.is_exact() ? 1 : config.ppo_max_token_len_per_rank, actor});
  train(*models.actor_passes, micros, [&](const MicroBatch& micro, const at::Tensor& hidden) {
    const at::Tensor log_probs_N = actor.token_log_probs(hidden, micro.rows, micro.tokens, 1.0).log_probs_N;
    const at::Tensor lengths_S = answer_lengths(micro, actor.device());
    const at::Tensor log_probs_P2 = answer_sums(log_probs_N, lengths_S);
    at::Tensor log_ratios_P2 = log_probs_P2;
    if (!loss_config.reference_free) {
      const at::Tensor reference_N = per_token(micro, actor.device(), [](const Sample& answer, int64_t t) {
        return answer.ref_log_probs[static_cast<size_t>(t)];
      });
      log_ratios_P2 = answer_sums(log_probs_N - reference_N, lengths_S);
    }
    const losses::PreferencePairs judged =
        losses::pairs_of(log_ratios_P2, lengths_S.view({-1, 2}).to(at::kDouble));
    const at::Tensor losses_P = losses::preference_losses(judged, loss_config);
    at::Tensor loss = losses_P.sum() / static_cast<double>(update.num_pairs);
    metrics.sum("dpo/loss", loss.item<double>());
    if (sft_weight > 0) {
      const at::Tensor nll = -sft_weight * log_probs_P2.select(1, 0).sum();
      metrics.sum("dpo/sft_loss", nll.item<double>() / loss_config.sft_coef);
      loss = loss + nll;
    }
    record_preferences("", judged, loss_config, log_probs_P2, metrics);
    return loss;
  });
  const double norm = finish_update(parameters, models.actor_memory, *models.optimizer, update.lr);
  metrics.mean("actor/grad_norm", norm);
  if (!std::isfinite(norm)) metrics.sum("actor/skipped_updates", 1.0 / replicas.size());
}

void record_preferences(const std::string& prefix, const losses::PreferencePairs& pairs,
                        const losses::PreferenceLossConfig& config, const at::Tensor& log_probs_P2,
                        StepMetrics& metrics) {
  const at::NoGradGuard no_gradients;
  const auto mean = [&](const std::string& name, const at::Tensor& values_P) {
    metrics.mean(prefix + name, values_P.to(at::kDouble).mean().item<double>(),
                 static_cast<double>(values_P.numel()));
  };
  const at::Tensor chosen = log_probs_P2.select(1, 0), rejected = log_probs_P2.select(1, 1);
  mean("rewards/chosen", config.beta * pairs.chosen_P);
  mean("rewards/rejected", config.beta * pairs.rejected_P);
  mean("rewards/margins", pairs.margins_P(config));
  mean("rewards/accuracies", pairs.chosen_P > pairs.rejected_P);
  mean("logps/chosen", chosen);
  mean("logps/rejected", rejected);
  mean("logps/accuracies", chosen > rejected);
}

}  // namespace trireme::steps
