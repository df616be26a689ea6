#include "trainer/steps/reward_model.h"

#include <ATen/ops/empty.h>

#include "runtime/base/error.h"
#include "trainer/data/on_all_cpus.h"
#include "trainer/steps/group_exchange.h"
#include "trainer/steps/passes.h"

namespace trireme::steps {

using placement::Role;

namespace {

// As transformers' sequence classifiers choose it.
int64_t judged_row(const std::vector<int32_t>& tokens, const std::optional<int32_t>& pad) {
  auto row = static_cast<int64_t>(tokens.size()) - 1;
  while (pad && row > 0 && tokens[static_cast<size_t>(row)] == *pad) --row;
  return row;
}

}  // namespace

void ModelJudging::send(const std::vector<Group>& groups) {
  std::vector<Group> sent;
  for (const Group& group : groups) {
    Group& bare = sent.emplace_back();
    bare.id = group.id;
    bare.problem = group.problem;
    bare.prompt = group.prompt;
    for (const Sample& sample : group.samples) bare.samples.emplace_back().tokens = sample.tokens;
  }
  groups_ = send_groups(context_.session, Role::reward_model, std::move(sent), Role::rollout);
}

JudgedSequences ModelJudging::sequences_of(const Group& group) const {
  const RewardModelInput& input = *context_.reward_input;
  JudgedSequences judged;
  for (const Sample& sample : group.samples) {
    std::vector<int32_t> tokens;
    if (input.reader) {
      tokens = data::tokens_for(*input.reader, problems_[static_cast<size_t>(group.problem)],
                                context_.tokenizer.decode(sample.tokens));
      if (const auto size = static_cast<int64_t>(tokens.size()); size > input.max_length)
        tokens.erase(tokens.begin(), tokens.begin() + (size - input.max_length));
    } else {
      tokens = group.prompt;
      tokens.insert(tokens.end(), sample.tokens.begin(), sample.tokens.end());
    }
    TRIREME_CHECK(!tokens.empty(), "an empty prompt with an empty response");
    judged.rows.push_back(judged_row(tokens, input.pad));
    judged.tokens.push_back(std::move(tokens));
  }
  return judged;
}

void ModelJudging::judge(StepMetrics& metrics) {
  std::vector<JudgedSequences> judged(groups_.size());
  data::on_all_cpus(groups_.size(), [&](size_t i) { judged[i] = sequences_of(groups_[i]); });
  sharding::Pipeline& passes = *context_.models.reward_passes;
  const std::vector<MicroBatch> micros =
      pack_judged(judged, {context_.reward_input->max_rows, passes.decoder()});
  std::vector<int64_t> begins{0};
  for (const MicroBatch& micro : micros) begins.push_back(begins.back() + micro.num_pairs());
  at::Tensor numbers = at::empty({begins.back()}, at::kFloat);
  size_t k = 0;
  read(passes, micros, [&](const MicroBatch& micro, const at::Tensor& hidden) {
    numbers.narrow(0, begins[k], micro.num_pairs()).copy_(passes.decoder().row_values(hidden, micro.rows));
    ++k;
  });
  passes.share(numbers);
  const float* next = numbers.const_data_ptr<float>();
  metrics.record(context_.session.speaks_for_replica(Role::reward_model));
  for (Group& group : groups_)
    for (Sample& sample : group.samples) {
      sample.model_score = *next++;
      metrics.spread("reward/model", sample.model_score);
    }
}

void ModelJudging::bring_back(std::vector<Group>& groups) {
  GroupNumbers mine;
  for (const Group& group : groups_)
    for (std::vector<double>& numbers = mine[group.id]; const Sample& sample : group.samples)
      numbers.push_back(sample.model_score);
  const GroupNumbers numbers = share_numbers(context_.session, Role::rollout, mine, Role::reward_model);
  for (Group& group : groups) {  // none where rollout is not
    const std::vector<double>& of_group = numbers.at(group.id);
    TRIREME_CHECK(of_group.size() == group.samples.size(), "{} numbers for {} responses", of_group.size(),
                  group.samples.size());
    for (size_t i = 0; i < of_group.size(); ++i) group.samples[i].model_score = of_group[i];
  }
}

evaluation::ModelScores model_scores(StepContext& context, std::span<const data::Problem> problems) {
  evaluation::ModelScores scores;
  if (!context.reward_input) return scores;
  scores.weight = context.reward_input->weight;
  scores.alone = context.reward_input->alone;
  scores.judge = [&context, problems](std::span<const evaluation::ModelScores::Answered> answered) {
    std::vector<Group> groups;
    for (const auto& one : answered) {
      Group& group = groups.emplace_back();
      group.id = group.problem = static_cast<int64_t>(one.index);
      group.prompt = problems[one.index].prompt_ids;
      for (const auto& response : one.responses) group.samples.emplace_back().tokens = response;
    }
    StepMetrics unrecorded;  // evaluations have metrics of their own
    ModelJudging judging(context, problems);
    judging.send(groups);
    if (context.session.has(Role::reward_model)) judging.judge(unrecorded);
    judging.bring_back(groups);
    std::vector<std::vector<double>> numbers;
    for (const Group& group : groups) {
      auto& of_group = numbers.emplace_back();
      for (const Sample& sample : group.samples) of_group.push_back(sample.model_score);
    }
    return numbers;
  };
  return scores;
}

void judge_by_model(StepContext& context, const pipeline::Lane& lane, std::vector<Group>& groups,
                    StepMetrics& metrics) {
  ModelJudging judging(context, context.problems.train);
  lane.run("exchange", [&] { judging.send(groups); });
  lane.run("reward_model", context.session.has(Role::reward_model), [&] { judging.judge(metrics); });
  lane.run("exchange", [&] { judging.bring_back(groups); });
}

}  // namespace trireme::steps
