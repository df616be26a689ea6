#include "trainer/steps/group_filter.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/error.h"
#include "trainer/algorithms/reward_shaping.h"

namespace trireme::steps {

bool GroupFilter::take(std::vector<Group> batch, bool counts, StepMetrics& metrics) {
  ++num_batches_;
  if (!config_.enable) {
    kept_ = std::move(batch);
    return true;
  }
  std::string mine;
  for (Group& group : batch) {
    std::vector<double> judgements;
    for (const Sample& sample : group.samples)
      judgements.push_back(config_.metric == "acc" ? (sample.correct ? 1.0 : 0.0) : sample.score);
    if (!algorithms::tells_apart(judgements)) {
      metrics.sum("training/filter_groups/evicted_samples", static_cast<double>(group.samples.size()));
      continue;
    }
    if (counts) mine.append(reinterpret_cast<const char*>(&group.id), sizeof group.id);
    kept_.push_back(std::move(group));
  }
  for (const std::string& ids : world_.all_gather_strings(mine)) {
    const size_t before = ids_.size();
    ids_.resize(before + ids.size() / sizeof(int64_t));
    if (!ids.empty()) std::memcpy(&ids_[before], ids.data(), ids.size());
  }
  if (static_cast<int64_t>(ids_.size()) >= wanted_) return true;
  if (config_.max_num_gen_batches > 0 && num_batches_ >= config_.max_num_gen_batches)
    fail(
        ErrorCode::invalid_config,
        "only {} of the {} prompts of a step (data.train_batch_size) have responses that differ in {}, after "
        "{} generated batches (algorithm.filter_groups.max_num_gen_batches): the problems are too easy or "
        "too hard for the model, or rollout.n is too small; a limit of 0 goes on until there are enough",
        ids_.size(), wanted_, config_.metric, num_batches_);
  return false;
}

std::vector<Group> GroupFilter::result() {
  if (!config_.enable) return std::move(kept_);
  std::sort(ids_.begin(), ids_.end());
  std::vector<Group> groups;
  for (Group& group : kept_) {
    const auto place = std::lower_bound(ids_.begin(), ids_.end(), group.id) - ids_.begin();
    if (place >= wanted_) continue;
    group.id = place;
    groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace trireme::steps
