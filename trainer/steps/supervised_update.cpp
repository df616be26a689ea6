#include "trainer/steps/supervised_update.h"

#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/from_blob.h>

#include "runtime/tensors/balance.h"
#include "trainer/steps/passes.h"

namespace trireme::steps {

using placement::Role;

namespace {

// This replica's, of about the same cost as the others'.
std::vector<Example> share_of(std::vector<Example> examples, const session::Session& session) {
  std::vector<std::pair<int64_t, int64_t>> costs;
  for (const Example& example : examples) {
    const auto length = static_cast<int64_t>(example.tokens.ids.size());
    costs.emplace_back(costs.size(), length + length * length / 8192);  // as Group::cost() has it
  }
  const std::vector<int> parts = tensors::assign(costs, session.roles().mesh(Role::actor).dp);
  std::vector<Example> mine;
  for (size_t i = 0; i < examples.size(); ++i)
    if (parts[i] == session.place_in(Role::actor).d) mine.push_back(std::move(examples[i]));
  return mine;
}

// Minus the log-probabilities of a micro-batch's tokens, each by its example's weight. `example` moves on to
// the first one that is not in it.
at::Tensor loss_of(const models::Decoder& decoder, const MicroBatch& micro, const at::Tensor& hidden,
                   const std::vector<Example>& examples, size_t& example) {
  std::vector<float> weights;
  for (; weights.size() < static_cast<size_t>(micro.num_pairs()); ++example)
    weights.insert(weights.end(), static_cast<size_t>(examples[example].tokens.num_learned()),
                   static_cast<float>(examples[example].token_weight));
  const at::Tensor weights_N =
      at::from_blob(weights.data(), {micro.num_pairs()}, at::kFloat).clone().to(decoder.device());
  return -(decoder.token_log_probs(hidden, micro.rows, micro.tokens, 1.0).log_probs_N * weights_N).sum();
}

}  // namespace

void weigh_tokens(std::span<Example> examples, double share) {
  int64_t tokens = 0;
  for (const Example& example : examples) tokens += example.tokens.num_learned();
  for (Example& example : examples) example.token_weight = share / static_cast<double>(tokens);
}

void supervised_update(StepContext& context, std::vector<Example> examples, const SupervisedUpdate& update,
                       StepMetrics& metrics) {
  RoleModels& models = context.models;
  sharding::TrainedParameters& parameters = *models.actor_parameters;
  const auto present = models.actor_memory.weights();
  metrics.record(context.session.speaks_for_replica(Role::actor));  // its ranks do the same
  const std::vector<Example> mine = share_of(std::move(examples), context.session);
  for (const Example& example : mine)
    metrics.sum(update.prefix + "/learned_tokens", static_cast<double>(example.tokens.num_learned()));
  // Exact sums are made of gradients of one example each.
  const std::vector<MicroBatch> micros =
      pack_examples(mine, {parameters.is_exact() ? 1 : update.max_rows, *models.actor});
  size_t example = 0;
  train(*models.actor_passes, micros, [&](const MicroBatch& micro, const at::Tensor& hidden) {
    const at::Tensor loss = loss_of(*models.actor, micro, hidden, mine, example);
    metrics.sum(update.prefix + "/loss", update.part * loss.item<double>());
    return loss;
  });
  const double norm = finish_update(parameters, models.actor_memory, *models.optimizer, update.lr);
  metrics.mean(update.prefix + "/grad_norm", norm);
}

double supervised_loss(StepContext& context, std::vector<Example> examples, int64_t max_rows) {
  weigh_tokens(examples);
  double sum = 0.0;
  if (context.session.has(Role::actor) && !examples.empty()) {
    const std::vector<Example> mine = share_of(std::move(examples), context.session);
    const std::vector<MicroBatch> micros = pack_examples(mine, {max_rows, *context.models.actor});
    size_t example = 0;
    const auto present = context.models.actor_memory.weights();
    read(*context.models.actor_passes, micros, [&](const MicroBatch& micro, const at::Tensor& hidden) {
      sum += loss_of(*context.models.actor, micro, hidden, mine, example).item<double>();
    });
    if (!context.session.speaks_for_replica(Role::actor)) sum = 0.0;  // one of the replica's ranks counts
  }
  return context.session.world().all_reduce_scalar(sum, comm::ReduceOp::sum);
}

}  // namespace trireme::steps
