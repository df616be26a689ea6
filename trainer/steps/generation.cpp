#include "trainer/steps/generation.h"

#include <fmt/format.h>

#include "trainer/data/order.h"
#include "trainer/steps/token_values.h"

namespace trireme::steps {

using placement::Role;

namespace {

rollout::Request request_for(StepContext& context, const data::DataConfig& data, const Group& group,
                             int64_t step) {
  rollout::Request request;
  request.id = group.id;
  request.prompt = group.prompt;
  request.max_new_tokens = context.models.engine->max_new_tokens(request, data.max_response_length);
  request.seed = context.seed;
  request.step = step;
  return request;
}

}  // namespace

Generated generate_groups(StepContext& context, const data::DataConfig& data,
                          const rollout::RolloutConfig& rollout, const PromptBatch& batch,
                          StepMetrics& metrics, const OnGroup& on_group) {
  const auto& problems = context.problems.train;
  const auto indices = data::batch_indices(static_cast<int64_t>(problems.size()), data.train_batch_size,
                                           batch.taken, context.seed, data.shuffle);
  std::vector<Group> groups;
  std::vector<rollout::Request> requests;
  for (int64_t i = context.session.place_in(Role::rollout).d; i < data.train_batch_size;
       i += context.session.roles().mesh(Role::rollout).dp) {
    const data::Problem& problem = problems[static_cast<size_t>(indices[static_cast<size_t>(i)])];
    Group& group = groups.emplace_back();
    group.id = batch.first_id + i;
    group.problem = indices[static_cast<size_t>(i)];
    group.prompt = problem.prompt_ids;
    metrics.spread("prompt_length", static_cast<double>(group.prompt.size()));
    metrics.mean("prompt_length/clip_ratio",
                 static_cast<int64_t>(group.prompt.size()) >= data.max_prompt_length ? 1.0 : 0.0);
    rollout::Request request = request_for(context, data, group, batch.step);
    request.n = rollout.n;
    request.sampling = rollout.sampling;
    requests.push_back(std::move(request));
  }
  const auto n = static_cast<size_t>(rollout.n);
  for (Group& group : groups) group.samples.resize(n);
  std::vector<size_t> left(groups.size(), n);  // responses to come
  Judging judging(context, batch.step, groups.size() * n);
  Generated generated{std::move(groups), std::move(judging)};
  const auto completions = context.models.engine->generate(
      std::move(requests), [&](size_t i, size_t place, const rollout::Response& response) {
        Group& group = generated.groups[i];
        Sample& sample = group.samples[place];
        sample.tokens = response.tokens;
        sample.rollout_log_probs = response.log_probs;
        sample.stopped = response.stopped;
        generated.judging.hand_in(i * n + place, fmt::format("{}/{}", group.id, place),
                                  problems[static_cast<size_t>(group.problem)], sample.tokens);
        if (--left[i] == 0 && on_group) on_group(generated, i);
      });
  for (const rollout::Completion& completion : completions)
    for (const rollout::Response& response : completion.responses)
      for (const float entropy : response.entropies) metrics.mean("actor/entropy", entropy);
  metrics.mean("training/epoch", static_cast<double>(batch.taken / static_cast<int64_t>(problems.size())));
  return generated;
}

Judging greedy_responses(StepContext& context, const data::DataConfig& data, const std::vector<Group>& groups,
                         int64_t step, std::vector<Sample>& responses) {
  std::vector<rollout::Request> requests;
  for (const Group& group : groups) {
    requests.push_back(request_for(context, data, group, step));
    requests.back().greedy = true;
  }
  Judging judging(context, step, groups.size());
  responses.assign(groups.size(), {});
  context.models.engine->generate(
      std::move(requests), [&](size_t i, size_t, const rollout::Response& response) {
        const auto problem = static_cast<size_t>(groups[i].problem);
        judging.hand_in(i, fmt::format("{}/greedy", groups[i].id), context.problems.train[problem], response.tokens);
        responses[i].tokens = response.tokens;
      });
  return judging;
}

void record_engine(StepContext& context, StepMetrics& metrics) {
  const rollout::EngineStats stats = context.models.engine->take_stats();
  metrics.sum("rollout/generated_tokens", static_cast<double>(stats.generated_tokens));
  metrics.max("rollout/num_running/max", static_cast<double>(stats.peak_running));
  metrics.max("rollout/num_waiting/max", static_cast<double>(stats.peak_waiting));
  metrics.max("rollout/pages_peak", static_cast<double>(stats.peak_pages));
  metrics.max("rollout/pages_total", static_cast<double>(stats.total_pages));
  metrics.sum("rollout/preemptions", static_cast<double>(stats.preemptions));
  metrics.sum("rollout/recomputed_tokens", static_cast<double>(stats.recomputed_tokens));
  const auto mean = [&](const char* name, int64_t sum, int64_t count) {
    if (count > 0)
      metrics.mean(name, static_cast<double>(sum) / static_cast<double>(count), static_cast<double>(count));
  };
  mean("rollout/num_running/mean", stats.running_sum, stats.steps);
  mean("rollout/num_waiting/mean", stats.waiting_sum, stats.steps);
  mean("rollout/prefix_hit_rate", stats.cached_prompt_tokens, stats.prompt_tokens);
}

void record_tokens(std::span<const Group> groups, StepMetrics& metrics) {
  const auto made = static_cast<double>(tokens_of(groups));
  metrics.sum("perf/total_num_tokens", made);
  metrics.max("global_seqlen/max", made);
  metrics.min("global_seqlen/min", made);
  metrics.mean("global_seqlen/mean", made);
}

void record_lengths(std::span<const Group> groups, StepMetrics& metrics) {
  for (const Group& group : groups)
    for (const Sample& sample : group.samples) {
      metrics.spread("response_length", static_cast<double>(sample.length()));
      metrics.mean("response_length/clip_ratio", sample.stopped ? 0.0 : 1.0);
    }
}

}  // namespace trireme::steps
