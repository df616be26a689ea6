#include "trainer/steps/sft_step.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/from_blob.h>

#include "runtime/base/error.h"
#include "trainer/data/order.h"

namespace trireme::steps {

using placement::Role;

SftStep::SftStep(StepContext& context, const data::DataConfig& data, const SftConfig& sft, int64_t max_rows)
    : context_(context), data_(data), sft_(sft), max_rows_(max_rows) {}

observe::Metrics SftStep::run(int64_t step, int64_t total_steps, int64_t taken) {
  pipeline::StageRunner& stages = context_.stages;
  session::Session& session = context_.session;
  metrics_ = {};
  std::vector<Example> examples;
  const double lr = optim::learning_rate(sft_.optim, step, total_steps);
  metrics_.mean("sft/lr", lr);
  stages.run("data", session.has(Role::actor), [&] { examples = examples_of(step, taken); });
  stages.run("update_actor", session.has(Role::actor), [&] { update(examples, lr); });
  stages.run("update_weights", [&] { publish_weights(context_.models); });
  return metrics_.reduce(session.world());
}

// The whole batch, on every rank: tokenizing is cheap, and each then knows how many tokens there are in all.
std::vector<Example> SftStep::examples_of(int64_t step, int64_t taken) const {
  const bool bare = sft_.bare_batch_size > 0 && !context_.problems.bare.empty();
  std::vector<Example> examples;
  add_examples(examples, context_.problems.train, sft_.train_batch_size, taken,
               bare ? 1.0 - sft_.bare_weight : 1.0);
  if (bare)
    add_examples(examples, context_.problems.bare, sft_.bare_batch_size, step * sft_.bare_batch_size,
                 sft_.bare_weight);
  return examples;
}

// Their tokens' weights sum to `share`: a mean over tokens.
void SftStep::add_examples(std::vector<Example>& examples, const std::vector<data::Problem>& problems,
                           int64_t batch_size, int64_t taken, double share) const {
  const size_t first = examples.size();
  size_t tokens = 0;
  for (const int64_t index : data::batch_indices(static_cast<int64_t>(problems.size()), batch_size, taken,
                                                 context_.seed ^ 0x5f74ULL, data_.shuffle)) {
    const data::Problem& problem = problems[static_cast<size_t>(index)];
    Example& example = examples.emplace_back();
    example.prompt = problem.prompt_ids;
    example.response = context_.tokenizer.encode(problem.response);
    if (static_cast<int64_t>(example.response.size()) >= data_.max_response_length)
      example.response.resize(static_cast<size_t>(data_.max_response_length));
    else
      example.response.push_back(context_.tokenizer.eos_id());
    tokens += example.response.size();
  }
  for (size_t i = first; i < examples.size(); ++i)
    examples[i].token_weight = share / static_cast<double>(tokens);
}

void SftStep::update(const std::vector<Example>& examples, double lr) {
  RoleModels& models = context_.models;
  sharding::TrainedParameters& parameters = *models.actor_parameters;
  const auto place = context_.session.place_in(Role::actor);
  const auto replicas = static_cast<size_t>(context_.session.roles().mesh(Role::actor).dp);
  metrics_.record(place.t == 0);  // the ranks of a replica do the same
  std::vector<Example> mine;
  for (size_t i = 0; i < examples.size(); ++i) {
    const Example& example = examples[i];
    if (static_cast<int>(i % replicas) != place.d) continue;
    metrics_.sum("perf/total_num_tokens",
                 static_cast<double>(example.prompt.size() + example.response.size()));
    mine.push_back(example);
  }
  // Exact sums are made of gradients of one example each.
  const std::vector<MicroBatch> micros = pack_examples(mine, parameters.is_exact() ? 1 : max_rows_);
  parameters.begin_update(micros.size());
  size_t example = 0;
  for (const MicroBatch& micro : micros) {
    std::vector<float> weights;
    for (; weights.size() < static_cast<size_t>(micro.num_pairs()); ++example)
      weights.insert(weights.end(), mine[example].response.size(),
                     static_cast<float>(mine[example].token_weight));
    const at::Tensor weights_N =
        at::from_blob(weights.data(), {micro.num_pairs()}, at::kFloat).to(models.actor->device());
    const at::Tensor hidden = models.actor->forward_packed(micro.batch);
    const at::Tensor log_probs_N =
        models.actor->token_log_probs(hidden, micro.rows, micro.tokens, 1.0).log_probs_N;
    const at::Tensor loss = -(log_probs_N * weights_N).sum();
    loss.backward();
    parameters.end_backward();
    metrics_.sum("sft/loss", loss.item<double>());
  }
  const double norm = parameters.sum_gradient();
  models.optimizer->step(lr, norm);
  publish_actor(models);
  metrics_.mean("sft/grad_norm", norm);
}

}  // namespace trireme::steps
