#include "trainer/steps/batch_maker.h"

#include <span>
#include <utility>

#include "trainer/algorithms/estimator_config.h"
#include "trainer/algorithms/reward_shaping.h"
#include "trainer/steps/group_exchange.h"
#include "trainer/steps/group_filter.h"
#include "trainer/steps/reward_model.h"

namespace trireme::steps {

using placement::Role;

BatchMaker::BatchMaker(StepContext& context, const data::DataConfig& data, const rollout::RolloutConfig& rollout,
                       const algorithms::AlgorithmConfig& algorithm, GroupStream* stream)
    : context_(context), data_(data), rollout_(rollout), algorithm_(algorithm), stream_(stream) {}

void BatchMaker::make(const pipeline::Lane& lane, int64_t taken, Batch& batch) {
  const bool is_rollout = context_.session.has(Role::rollout);
  const bool counts = is_rollout && context_.session.speaks_for_replica(Role::rollout);
  batch.metrics.record(counts);  // what ranks of a replica do alike is recorded by one of them
  const int64_t size = data_.train_batch_size;

  GroupFilter filter(algorithm_.filter_groups, size, lane.is_mine() ? lane.ranks() : context_.session.world());
  for (bool enough = false; !enough;) {
    const int64_t before = filter.num_batches() * size;
    std::vector<Group> groups;
    lane.run("gen", is_rollout, [&] { generate(batch, taken + before, before, groups); });
    if (has_greedy()) lane.run("gen_max", is_rollout, [&] { greedy_scores(groups, batch); });
    if (context_.reward_input) model_scores(lane, groups, batch);
    if (!scores_late())
      lane.run("reward", is_rollout, [&] {
        if (stream_ && counts) send_finished(groups, *judging_, /*all=*/true);
        score(groups, batch.metrics);
      });
    const auto take = [&] { enough = filter.take(std::move(groups), counts, batch.metrics); };
    algorithm_.filter_groups.enable ? lane.run("filter", take) : take();
    enough = enough || !lane.is_mine();
  }
  batch.taken = filter.num_batches() * size;
  batch.groups = filter.result();
  if (is_rollout) record_lengths(batch.groups, batch.metrics);
  if (is_rollout && algorithm_.filter_groups.enable)
    batch.metrics.mean("training/num_gen_batches", static_cast<double>(filter.num_batches()));
  if (scores_late()) judged_ = batch.groups;
  if (stream_) batch.groups.clear();
}

bool BatchMaker::scores_late() const {
  return rollout_.steps_ahead == 0 && !algorithm_.filter_groups.enable && !stream_;
}

bool BatchMaker::has_greedy() const {
  return algorithms::needs_of(algorithm_.adv_estimator).greedy_response;
}

void BatchMaker::generate(Batch& batch, int64_t taken, int64_t first_id, std::vector<Group>& groups) {
  is_whole_.clear();
  parts_sent_ = 0;
  OnGroup on_group;
  if (stream_ && context_.session.speaks_for_replica(Role::rollout))
    on_group = [&](Generated& so_far, size_t group) {
      is_whole_.resize(so_far.groups.size());
      is_whole_[group] = true;
      send_finished(so_far.groups, so_far.judging, /*all=*/false);
    };
  Generated generated = generate_groups(context_, data_, rollout_, {batch.step, taken, first_id}, batch.metrics, on_group);
  record_engine(context_, batch.metrics);
  record_tokens(generated.groups, batch.metrics);
  groups = std::move(generated.groups);
  judging_.emplace(std::move(generated.judging));
}

// Parts go in their order, each when this replica's share of it is made and judged; `all`: that is waited for.
void BatchMaker::send_finished(std::vector<Group>& groups, Judging& judging, bool all) {
  const auto n = static_cast<size_t>(rollout_.n);
  const auto is_finished = [&](size_t group) {
    if (!is_whole_[group]) return false;
    for (size_t place = group * n; place < (group + 1) * n; ++place)
      if (!judging.is_judged(place)) return false;
    return true;
  };
  size_t begin = 0;
  for (int64_t part = 0; part < stream_->num_parts(); ++part) {
    size_t end = begin;
    while (end < groups.size() && groups[end].id < (part + 1) * stream_->part_size()) ++end;
    if (part >= parts_sent_) {
      for (size_t i = begin; i < end; ++i) {
        if (!all && !is_finished(i)) return;
        for (size_t k = 0; k < n; ++k) set_score(groups[i].samples[k], judging.score(i * n + k));
      }
      stream_->send(std::span<const Group>(groups).subspan(begin, end - begin));
      parts_sent_ = part + 1;
    }
    begin = end;
  }
}

void BatchMaker::greedy_scores(std::vector<Group>& groups, Batch& batch) {
  std::vector<Sample> responses;
  const auto scores = greedy_responses(context_, data_, groups, batch.step, responses).scores(batch.metrics);
  for (size_t i = 0; i < groups.size(); ++i)
    groups[i].greedy_score = scores[i].value + overlong_penalty(responses[i].length());
  greedy_.clear();
  if (context_.reward_input)
    for (size_t i = 0; i < groups.size(); ++i)
      greedy_.push_back({groups[i].id, groups[i].problem, groups[i].prompt, 0.0, {std::move(responses[i])}});
}

void BatchMaker::model_scores(const pipeline::Lane& lane, std::vector<Group>& groups, Batch& batch) {
  judge_by_model(context_, lane, groups, batch.metrics);
  const bool is_rollout = context_.session.has(Role::rollout);
  batch.metrics.record(is_rollout && context_.session.speaks_for_replica(Role::rollout));
  if (!has_greedy()) return;
  StepMetrics apart;  // reward/model is of the responses that are learned from
  judge_by_model(context_, lane, greedy_, apart);
  for (size_t i = 0; i < greedy_.size(); ++i)
    groups[i].greedy_score += context_.reward_input->weight * greedy_[i].samples[0].model_score;
}

void BatchMaker::bring_scores(const pipeline::Lane& all, std::vector<Group>& groups, StepMetrics& metrics) {
  session::Session& session = context_.session;
  all.run("reward", session.has(Role::rollout), [&] {
    metrics.record(session.speaks_for_replica(Role::rollout));
    score(judged_, metrics);
  });
  all.run("exchange", [&] {
    GroupNumbers mine;
    for (const Group& group : judged_)
      for (std::vector<double>& numbers = mine[group.id]; const Sample& sample : group.samples)
        numbers.insert(numbers.end(), {sample.score, sample.correct ? 1.0 : 0.0});
    const GroupNumbers numbers = share_numbers(session, Role::actor, mine, Role::rollout);
    for (Group& group : groups)
      for (auto next = numbers.at(group.id).begin(); Sample& sample : group.samples) {
        sample.score = *next++;
        sample.correct = *next++ != 0;
      }
  });
  judged_.clear();
}

// The judgements, most of which came while others were generated, less what overlong responses lose. Collective
// over: a rollout replica's ranks.
void BatchMaker::score(std::vector<Group>& groups, StepMetrics& metrics) {
  const auto scores = judging_->scores(metrics);
  auto score = scores.begin();
  for (Group& group : groups) {
    if (has_greedy()) metrics.mean("critic/greedy_score/mean", group.greedy_score);
    for (Sample& sample : group.samples) {
      if (algorithm_.overlong_buffer.enable)
        metrics.mean("reward/overlong/mean", overlong_penalty(sample.length()));
      set_score(sample, *score++);
    }
  }
}

void BatchMaker::set_score(Sample& sample, const rewards::Score& score) const {
  sample.score = score.value + overlong_penalty(sample.length());
  if (context_.reward_input) sample.score += context_.reward_input->weight * sample.model_score;
  sample.correct = score.correct;
}

double BatchMaker::overlong_penalty(int64_t response_length) const {
  return algorithms::overlong_penalty(response_length, data_.max_response_length, algorithm_.overlong_buffer);
}

}  // namespace trireme::steps
