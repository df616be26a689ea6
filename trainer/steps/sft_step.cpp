#include "trainer/steps/sft_step.h"

#include <utility>

#include "trainer/data/order.h"
#include "trainer/steps/supervised_update.h"

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
  stages.run("update_actor", session.has(Role::actor), [&] { update(std::move(examples), lr); });
  stages.run("update_weights", [&] { publish_weights(context_.models); });
  return metrics_.reduce(session.world());
}

// The whole batch, on every rank: each then knows how many tokens there are in all.
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
  for (const int64_t index : data::batch_indices(static_cast<int64_t>(problems.size()), batch_size, taken,
                                                 context_.seed ^ 0x5f74ULL, data_.shuffle))
    for (const data::MaskedTokens& learned : problems[static_cast<size_t>(index)].learned)
      examples.push_back({learned});
  weigh_tokens(std::span(examples).subspan(first), share);
}

void SftStep::update(std::vector<Example> examples, double lr) {
  metrics_.record(context_.session.rank() == context_.session.roles().actor.front());
  for (const Example& example : examples)
    metrics_.sum("perf/total_num_tokens", static_cast<double>(example.tokens.ids.size()));
  supervised_update(context_, std::move(examples), {.lr = lr, .max_rows = max_rows_, .prefix = "sft"},
                    metrics_);
}

double SftStep::loss(std::span<const data::Problem> problems) {
  std::vector<Example> examples;
  for (const data::Problem& problem : problems)
    for (const data::MaskedTokens& learned : problem.learned) examples.push_back({learned});
  return supervised_loss(context_, std::move(examples), max_rows_);
}

}  // namespace trireme::steps
