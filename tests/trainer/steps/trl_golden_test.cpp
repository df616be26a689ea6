// Our steps' losses and gradients beside those of TRL's trainers, from the same Hugging Face checkpoints and
// the same tokens. The numbers come from tools/make_goldens/trl_losses.py.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>

#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_vector_norm.h>

#include "runtime/base/files.h"
#include "tests/trainer/steps/small_run.h"
#include "trainer/steps/policy_update.h"
#include "trainer/steps/preference_update.h"
#include "trainer/steps/run_state.h"
#include "trainer/steps/token_values.h"
#include "trainer/weights/hf_checkpoint.h"
#include "trainer/weights/tensors.h"

namespace trireme::steps {
namespace {

using Json = nlohmann::json;
using Ids = std::vector<int32_t>;

class TrlGolden : public testing::Test {
 protected:
  TrlGolden() {
    run_.shape = models::DecoderShape::from_folder(folder_ + "/policy");
    plan::RankEnv env;
    env.rank = 0;
    env.num_ranks = 1;
    placement::RoleRanks roles;
    roles.actor = roles.reference = {0};
    rank_ = std::make_unique<SmallRank>(run_, env, roles);
    weights::load(folder_ + "/reference", run_.shape, *rank_->models.reference_parameters);
    rank_->models.reference->refresh();
  }

  /// The policy's weights before any update.
  void begin() {
    load_masters(folder_ + "/policy", rank_->models);
    publish_actor(rank_->models);
  }

  /// Ours and TRL's, over all parameters: how far apart, relative to TRL's norm.
  double distance(const std::string& name) const {
    const sharding::TrainedParameters& mine = *rank_->models.actor_parameters;
    std::map<std::string, at::Tensor> theirs;
    const at::Tensor flat = gradients_.at(name);
    int64_t at = 0;
    for (const auto& parameter : cases_.at("parameters")) {
      int64_t size = 1;
      for (const auto& length : parameter[1]) size *= length.get<int64_t>();
      theirs[parameter[0]] = flat.narrow(0, at, size);
      at += size;
    }
    EXPECT_EQ(at, flat.numel());
    double apart = 0;
    for (const sharding::Stretch& stretch : mine.stretches())
      apart +=
          (mine.gradient().narrow(0, stretch.at, stretch.numel()) -
           theirs.at(mine.weights().spec(stretch.parameter).name).narrow(0, stretch.begin, stretch.numel()))
              .to(at::kDouble)
              .square()
              .sum()
              .item<double>();
    return std::sqrt(apart) / at::linalg_vector_norm(flat).item<double>();
  }

  void score_by_reference(std::vector<Group>& groups, double temperature) {
    score_tokens(
        *rank_->models.reference_passes, groups, temperature, 1000,
        [](Sample& sample, std::vector<float> log_probs) { sample.ref_log_probs = std::move(log_probs); });
  }

  const std::string folder_ =
      std::string(std::getenv("TRIREME_SOURCE_DIR")) + "/tests/trainer/steps/goldens-trl";
  const Json cases_ = Json::parse(files::read(folder_ + "/cases.json"));
  const std::map<std::string, at::Tensor> gradients_ =
      weights::read_tensors(folder_ + "/gradients.safetensors");
  SmallRun run_;
  std::unique_ptr<SmallRank> rank_;
  double worst_ = 0;
};

TEST_F(TrlGolden, DpoLossesAndGradientsAreTrls) {
  const auto& golden = cases_.at("dpo");
  std::vector<Group> pairs;
  for (const auto& row : golden.at("pairs")) {
    Group& pair = pairs.emplace_back();
    pair.prompt = row.at("prompt_ids").get<Ids>();
    pair.samples.resize(2);
    pair.samples[0].tokens = row.at("chosen_ids").get<Ids>();
    pair.samples[1].tokens = row.at("rejected_ids").get<Ids>();
  }
  score_by_reference(pairs, 1.0);
  for (size_t i = 0; i < golden.at("cases").size(); ++i) {
    const auto& expected = golden.at("cases")[i];
    losses::PreferenceLossConfig config;
    config.loss_type = expected.at("loss_type");
    config.beta = expected.at("beta");
    config.label_smoothing = expected.at("label_smoothing");
    config.sft_coef = expected.at("sft_coef");
    SCOPED_TRACE(config.loss_type);
    begin();
    StepMetrics metrics;
    update_preferences(rank_->context, pairs, run_.actor, config, {1e-3, static_cast<int64_t>(pairs.size())},
                       metrics);
    auto told = metrics.reduce(rank_->session.world());
    const double loss = expected.at("loss");
    EXPECT_NEAR(told["dpo/loss"] + config.sft_coef * told["dpo/sft_loss"], loss, 1e-5 * (1 + std::abs(loss)));
    for (const auto& [name, value] : expected.at("metrics").items()) {
      ASSERT_TRUE(told.contains(name)) << name;
      EXPECT_NEAR(told[name], value.get<double>(), 1e-5 * (1 + std::abs(value.get<double>()))) << name;
    }
    const double apart = distance("dpo." + std::to_string(i));
    EXPECT_LT(apart, 1e-5);
    worst_ = std::max(worst_, apart);
  }
  std::cout << "greatest relative distance of a gradient: " << worst_ << "\n";
}

ActorConfig actor_of(const Json& expected, int64_t max_length) {
  ActorConfig actor;
  actor.optim.grad_clip = 0;
  losses::PolicyLossConfig& loss = actor.loss;
  const std::string type = expected.at("loss_type");
  loss.clip_ratio_low = 0.2;
  loss.clip_ratio_high = 0.28;
  loss.clip_ratio_c = 1e10;  // TRL clips once
  loss.loss_agg_mode = type == "grpo" || type == "sapo" ? "seq-mean-token-mean"
                       : type == "dr_grpo"              ? "seq-mean-token-sum-norm"
                                                        : "token-mean";
  loss.loss_scale_factor = max_length;
  if (expected.at("level") == "sequence") loss.loss_mode = "gspo";
  if (type == "sapo") loss.loss_mode = "sapo";
  if (type == "cispo") {
    loss.loss_mode = "cispo";
    loss.clip_ratio_low = 1.0;  // TRL has no lower bound, and its upper one, 1.28, is of the ratio itself
  }
  loss.use_kl_loss = expected.at("beta").get<double>() > 0;
  loss.kl_loss_coef = expected.at("beta");
  loss.use_bias_correction_kl = expected.at("corrected");
  return actor;
}

TEST_F(TrlGolden, GrpoLossesAndGradientsAreTrls) {
  const auto& golden = cases_.at("grpo");
  const double temperature = golden.at("temperature");
  std::vector<Group> groups;
  size_t answer = 0;
  for (const auto& row : golden.at("groups")) {
    Group& group = groups.emplace_back();
    group.id = static_cast<int64_t>(groups.size());
    group.prompt = row.at("prompt").get<Ids>();
    for (const auto& response : row.at("responses")) {
      Sample& sample = group.samples.emplace_back();
      sample.tokens = response.get<Ids>();
      sample.old_log_probs = golden.at("old")[answer].get<std::vector<float>>();
      sample.advantages.assign(sample.tokens.size(), golden.at("advantages")[answer].get<float>());
      ++answer;
    }
  }
  score_by_reference(groups, temperature);
  for (size_t i = 0; i < golden.at("cases").size(); ++i) {
    const auto& expected = golden.at("cases")[i];
    SCOPED_TRACE(expected.dump());
    answer = 0;
    for (Group& group : groups)
      for (Sample& sample : group.samples) {
        sample.mask.clear();
        const auto& mask = golden.at("tool_mask")[answer++];
        if (expected.at("tool_mask").get<bool>()) sample.mask = mask.get<std::vector<uint8_t>>();
      }
    const ActorConfig actor = actor_of(expected, golden.at("max_completion_length"));
    begin();
    StepMetrics metrics;
    PolicyUpdate update;
    update.lr = 1e-3;
    update.temperature = temperature;
    update.old = OldPolicy::recomputed;
    update.first = false;
    update_policy(rank_->context, groups, actor, update, metrics);
    auto told = metrics.reduce(rank_->session.world());
    const double loss = expected.at("loss");
    EXPECT_NEAR(told["actor/pg_loss"] + actor.loss.kl_loss_coef * told["actor/kl_loss"], loss,
                1e-5 * (1 + std::abs(loss)));
    const double apart = distance("grpo." + std::to_string(i));
    EXPECT_LT(apart, 1e-5);
    worst_ = std::max(worst_, apart);
  }
  std::cout << "greatest relative distance of a gradient: " << worst_ << "\n";
}

}  // namespace
}  // namespace trireme::steps
