#include "trainer/steps/rft_step.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "runtime/base/counter_random.h"
#include "trainer/algorithms/rejection_sampling.h"
#include "trainer/data/order.h"
#include "trainer/steps/generation.h"
#include "trainer/steps/reward_model.h"
#include "trainer/steps/supervised_update.h"
#include "trainer/steps/token_values.h"

namespace trireme::steps {

using placement::Role;

RftStep::RftStep(StepContext& context, const data::DataConfig& data, const rollout::RolloutConfig& rollout,
                 const RftConfig& rft, const ActorConfig& actor, std::function<void()> to_base)
    : context_(context),
      data_(data),
      rollout_(rollout),
      rft_(rft),
      actor_(actor),
      to_base_(std::move(to_base)) {}

observe::Metrics RftStep::run(int64_t step, int64_t total_steps, int64_t taken) {
  pipeline::StageRunner& stages = context_.stages;
  session::Session& session = context_.session;
  const bool is_rollout = session.has(Role::rollout), is_actor = session.has(Role::actor);
  metrics_ = {};
  std::vector<Group> groups;
  std::optional<Judging> judging;  // goes on from "gen" to "reward"
  stages.run("gen", is_rollout, [&] {
    metrics_.record(session.speaks_for_replica(Role::rollout));
    Generated generated = generate_groups(context_, data_, rollout_, {step, taken, 0}, metrics_);
    groups = std::move(generated.groups);
    judging.emplace(std::move(generated.judging));
    record_engine(context_, metrics_);
  });
  if (!session.roles().reward_model.empty()) judge_by_model(context_, {stages, &session.world()}, groups, metrics_);
  stages.run("reward", is_rollout, [&] { judge(groups, *judging); });
  if (!rft_.accumulate) kept_.clear();
  stages.run("filter", is_rollout, [&] { groups = accepted(std::move(groups)); });
  stages.run("exchange", [&] { gather(std::move(groups)); });
  stages.run("update_actor", is_actor, [&] { fine_tune(step, total_steps); });
  stages.run("update_weights", [&] { publish_weights(context_.models); });
  return metrics_.reduce(session.world());
}

void RftStep::judge(std::vector<Group>& groups, Judging& judging) {
  metrics_.record(context_.session.speaks_for_replica(Role::rollout));
  const auto scores = judging.scores(metrics_);
  const RewardModelInput* model = context_.reward_input;
  auto next = scores.begin();
  for (Group& group : groups) {
    bool solved = false;
    for (Sample& sample : group.samples) {
      const rewards::Score& score = *next++;
      sample.score = score.value + (model ? model->weight * sample.model_score : 0.0);
      // A response that was cut off does not end, and would be learned without an end.
      sample.correct = ((model && model->alone) || score.correct) && sample.stopped;
      solved |= sample.correct;
      metrics_.spread("critic/score", sample.score);
      metrics_.mean("rft/accepted", sample.correct ? 1.0 : 0.0);
      metrics_.spread("response_length", static_cast<double>(sample.length()));
      metrics_.mean("response_length/clip_ratio", sample.stopped ? 0.0 : 1.0);
    }
    metrics_.mean("rft/solved", solved ? 1.0 : 0.0);
  }
  metrics_.sum("perf/total_num_tokens", static_cast<double>(tokens_of(groups)));
}

// Groups with no more than the samples that are kept.
std::vector<Group> RftStep::accepted(std::vector<Group> groups) {
  for (Group& group : groups) {
    std::vector<algorithms::Attempt> attempts;
    for (const Sample& sample : group.samples) attempts.push_back({sample.tokens, sample.correct, context_.reward_input ? sample.score : 0.0});
    const algorithms::Selection selection =
        algorithms::select_accepted(attempts, rft_.keep_per_prompt, rft_.dedup, kept_.of(group.problem));
    metrics_.sum("rft/duplicates", static_cast<double>(selection.duplicates));
    metrics_.sum("rft/kept", static_cast<double>(selection.kept.size()));
    std::vector<Sample> samples;
    for (const size_t place : selection.kept) samples.push_back(std::move(group.samples[place]));
    group.samples = std::move(samples);
  }
  return groups;
}

// All ranks' kept samples to all ranks, in order of the groups' ids: every actor then knows the whole round,
// whatever the layout. They are token ids alone, a small part of what the model takes.
void RftStep::gather(std::vector<Group> mine) {
  session::Session& session = context_.session;
  std::string packed;
  if (session.has(Role::rollout) && session.speaks_for_replica(Role::rollout))
    for (Group& group : mine) {
      if (group.samples.empty()) continue;
      group.prompt.clear();  // every rank has the problems
      for (Sample& sample : group.samples) sample.rollout_log_probs.clear();
      packed += pack(group);
    }
  std::vector<Group> all;
  for (const std::string& part : session.world().all_gather_strings(packed))
    std::ranges::move(unpack_all(part), std::back_inserter(all));
  std::sort(all.begin(), all.end(), [](const Group& a, const Group& b) { return a.id < b.id; });
  for (const Group& group : all) kept_.add(group);
}

void RftStep::fine_tune(int64_t step, int64_t total_steps) {
  metrics_.record(context_.session.rank() == context_.session.roles().actor.front());
  const auto size = static_cast<int64_t>(kept_.all().size());
  metrics_.sum("rft/dataset_size", static_cast<double>(size));
  if (size == 0) return;  // nothing to learn from: the weights stay
  if (rft_.start_from == "base") to_base_();
  const int64_t batch = rft_.mini_batch_size > 0 ? rft_.mini_batch_size : size;
  const int64_t per_epoch = (size + batch - 1) / batch, updates = per_epoch * rft_.epochs;
  SupervisedUpdate update{.max_rows = actor_.ppo_max_token_len_per_rank,
                          .prefix = "rft",
                          .part = 1.0 / static_cast<double>(updates)};
  for (int64_t i = 0; i < updates; ++i) {
    // A round from the base is a fine-tuning of its own, with the whole schedule.
    update.lr = rft_.start_from == "base" ? optim::learning_rate(actor_.optim, i, updates)
                                          : optim::learning_rate(actor_.optim, step, total_steps);
    const uint64_t key =
        random_bits(context_.seed, static_cast<uint64_t>(step), static_cast<uint64_t>(i / per_epoch));
    const int64_t first = i % per_epoch * batch;
    supervised_update(context_, mini_batch(first, std::min(first + batch, size), key), update, metrics_);
  }
  metrics_.record(context_.session.rank() == context_.session.roles().actor.front());
  metrics_.sum("rft/updates", static_cast<double>(updates));
  metrics_.mean("rft/lr", update.lr);
}

// Places [first, end) of the kept samples in an order that `key` chooses.
std::vector<Example> RftStep::mini_batch(int64_t first, int64_t end, uint64_t key) const {
  const auto size = static_cast<int64_t>(kept_.all().size());
  std::vector<Example> examples;
  for (int64_t place = first; place < end; ++place) {
    const KeptSamples::Kept& kept = kept_.all()[static_cast<size_t>(data::permute(place, size, key))];
    const auto& prompt = context_.problems.train[static_cast<size_t>(kept.problem)].prompt_ids;
    examples.push_back({data::prompt_and_response(prompt, kept.response)});
  }
  weigh_tokens(examples);
  return examples;
}

}  // namespace trireme::steps
