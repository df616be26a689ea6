#include "trainer/config/checks.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/config/written_file.h"
#include "trainer/config/rank_list.h"

namespace trireme::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

// The one mistake that these overrides make in a good configuration.
std::string only_mistake(const std::vector<std::string>& overrides) {
  const Lines lines = mistakes_of(kGood, overrides);
  return lines.size() == 1 ? lines[0] : testing::PrintToString(lines);
}

TEST(Checks, PassAGoodConfiguration) {
  EXPECT_THAT(mistakes_of(kGood), IsEmpty());
}

TEST(Checks, WantAGroupForGrpo) {
  EXPECT_THAT(only_mistake({"rollout.n=1"}), HasSubstr("rollout.n must be at least 2"));
  EXPECT_THAT(mistakes_of(kGood, {"rollout.n=1", "algorithm.name=sft"}), IsEmpty());
}

TEST(Checks, WantWhatTheEstimatorNeeds) {
  for (const char* name : {"remax", "reinforce_plus_plus", "rloo"})  // do with a lone response
    EXPECT_THAT(mistakes_of(kGood, {"rollout.n=1", fmt::format("algorithm.adv_estimator={}", name)}),
                IsEmpty());
  for (const char* name : {"opo", "gpg", "grpo_passk", "dr_grpo", "reinforce_plus_plus_baseline"})
    EXPECT_THAT(only_mistake({"rollout.n=1", fmt::format("algorithm.adv_estimator={}", name)}),
                HasSubstr(fmt::format("at least 2 for algorithm.adv_estimator = \"{}\"", name)));
  EXPECT_THAT(only_mistake({"algorithm.adv_estimator=rloo", "algorithm.name=grpo"}),
              HasSubstr("write algorithm.name = \"rl\""));
  EXPECT_THAT(mistakes_of(kGood, {"algorithm.name=grpo"}), IsEmpty());
  EXPECT_THAT(mistakes_of(kGood, {"algorithm.name=sft", "algorithm.adv_estimator=gae"}), IsEmpty());
  EXPECT_THAT(only_mistake({"algorithm.adv_estimator=a2c"}), HasSubstr("reinforce_plus_plus"));
}

TEST(Checks, WantAWarmUpThatARunOfRejectionSamplingGetsThrough) {
  EXPECT_THAT(mistakes_of(kGood, {"algorithm.name=rft", "rollout.n=1", "algorithm.adv_estimator=gae"}),
              IsEmpty());
  const std::vector<std::string> late{"algorithm.name=rft", "trainer.total_training_steps=4",
                                      "actor.optim.lr_warmup_steps=5"};
  EXPECT_THAT(only_mistake(late), HasSubstr("is longer than the run's 4 steps"));
  auto from_base = late;
  from_base.push_back("rft.start_from=base");  // a round's updates are not known
  EXPECT_THAT(mistakes_of(kGood, from_base), IsEmpty());
}

TEST(Checks, WantACriticThatFits) {
  const std::string gae = "algorithm.adv_estimator=gae", size = "data.train_batch_size=32";
  EXPECT_THAT(mistakes_of(kGood, {gae}), IsEmpty());
  EXPECT_THAT(mistakes_of(kGood, {gae, "rollout.n=1", "trainer.critic_warmup=5"}), IsEmpty());
  EXPECT_THAT(only_mistake({"trainer.critic_warmup=5"}), HasSubstr("waits for a critic"));
  EXPECT_THAT(only_mistake({gae, "trainer.critic_warmup=9", "trainer.total_training_steps=8"}),
              HasSubstr("the actor would never be updated"));
  EXPECT_THAT(only_mistake({gae, size, "critic.ppo_mini_batch_size=5"}),
              HasSubstr("critic.ppo_mini_batch_size = 5 must divide data.train_batch_size = 32"));
  EXPECT_THAT(only_mistake({gae, "critic.ppo_max_token_len_per_rank=7"}),
              HasSubstr("critic.ppo_max_token_len_per_rank = 7 cannot hold one sequence"));
  EXPECT_THAT(only_mistake({gae, size, "trainer.total_training_steps=2", "critic.optim.lr_warmup_steps=9",
                            "critic.ppo_epochs=4"}),
              HasSubstr("critic.optim.lr_warmup_steps = 9 is longer than the run's 2 steps"));
  EXPECT_THAT(only_mistake({gae, "critic.cliprange_value=0"}), HasSubstr("above 0"));
  EXPECT_THAT(only_mistake({gae, "critic.loss_agg_mode=mean"}), HasSubstr("one of actor, token-mean"));
  EXPECT_THAT(only_mistake({gae, "placement.critic=3-1"}), HasSubstr("placement.critic"));
  // Without one its settings ask for nothing.
  EXPECT_THAT(mistakes_of(kGood, {size, "critic.ppo_mini_batch_size=5"}), IsEmpty());
}

TEST(Checks, WantWholeLayersAndSequencesInRollout) {
  EXPECT_THAT(mistakes_of(kGood, {"rollout.parallel.pp=2"}),
              ElementsAre(HasSubstr("rollout.parallel.pp = 2: a token would go through 2 ranks one after")));
  EXPECT_THAT(mistakes_of(kGood, {"rollout.parallel.cp=2"}),
              ElementsAre(HasSubstr("rollout.parallel.cp = 2: a token's row is one")));
}

TEST(Checks, WantSettingsOfAnAlgorithmThatFitEachOther) {
  EXPECT_THAT(
      only_mistake({"algorithm.filter_groups.enable=true", "rollout.n=1", "algorithm.adv_estimator=remax"}),
      HasSubstr("keeps prompts whose responses differ"));
  EXPECT_THAT(
      only_mistake({"algorithm.filter_groups.enable=true", "algorithm.filter_groups.metric=seq_final_reward",
                    "algorithm.use_kl_in_reward=true"}),
      HasSubstr("would keep every prompt"));
  EXPECT_THAT(only_mistake({"algorithm.overlong_buffer.enable=true"}),
              HasSubstr("overlong_buffer.len = 0 must be"));
  EXPECT_THAT(only_mistake({"algorithm.overlong_buffer.enable=true", "algorithm.overlong_buffer.len=100000"}),
              HasSubstr("between 1 and data.max_response_length"));
  EXPECT_THAT(only_mistake({"algorithm.rollout_correction.bypass_mode=true",
                            "algorithm.rollout_correction.rollout_is=token"}),
              HasSubstr("nothing to correct"));
  EXPECT_THAT(only_mistake({"algorithm.rollout_correction.rollout_is_threshold_low=2"}),
              HasSubstr("must be below"));
  EXPECT_THAT(only_mistake({"actor.policy_loss.clip_cov_lb=5"}), HasSubstr("must be below"));
  EXPECT_THAT(
      mistakes_of(kGood, {"algorithm.filter_groups.enable=true", "algorithm.overlong_buffer.enable=true",
                          "algorithm.overlong_buffer.len=4", "actor.policy_loss.loss_mode=gspo",
                          "algorithm.rollout_correction.rollout_is=sequence"}),
      IsEmpty());
}

TEST(Checks, WantRanksForRolloutAloneWhereItGoesAhead) {
  const auto ahead = [](std::vector<std::string> overrides) {
    overrides.push_back("rollout.steps_ahead=1");
    return mistakes_of(kGood, overrides);
  };
  const std::string rollout = "placement.rollout=2-3", actor = "placement.actor=0-1",
                    reference = "placement.reference=0", kl = "actor.use_kl_loss=true";
  EXPECT_THAT(ahead({rollout, actor, "actor.use_kl_loss=false"}), IsEmpty());
  EXPECT_THAT(ahead({rollout, actor, reference, kl}), IsEmpty());
  EXPECT_THAT(ahead({rollout, actor, "placement.reference=1-2", kl}),
              ElementsAre(HasSubstr("placement.reference = \"1-2\": name different ranks")));
  EXPECT_THAT(ahead({rollout, actor, reference, kl, "algorithm.adv_estimator=gae"}),
              ElementsAre(HasSubstr("placement.critic is all ranks")));
  const Lines both = ahead({"actor.use_kl_loss=false"});
  EXPECT_THAT(both, ElementsAre(testing::AllOf(HasSubstr("rollout.steps_ahead=1"),
                                               HasSubstr("placement.rollout is all ranks, placement.actor is all"))));
  for (const char* name : {"rft", "sft"})
    EXPECT_THAT(ahead({rollout, actor, fmt::format("algorithm.name={}", name)}),
                ElementsAre(HasSubstr("goes with reinforcement learning")));
  EXPECT_THAT(only_mistake({"rollout.steps_ahead=-1"}), HasSubstr("rollout.steps_ahead"));
  EXPECT_THAT(mistakes_of(kGood, {"rollout.steps_ahead=0"}), IsEmpty());
}

TEST(Checks, WantSeveralMiniBatchesAndRanksForRolloutAloneWhereItStreams) {
  const auto streams = [](std::vector<std::string> overrides) {
    overrides.push_back("rollout.stream=true");
    return mistakes_of(kGood, overrides);
  };
  const std::string rollout = "placement.rollout=2-3", actor = "placement.actor=0-1", parts = "actor.ppo_mini_batch_size=8",
                    no_kl = "actor.use_kl_loss=false";
  EXPECT_THAT(streams({rollout, actor, parts, no_kl}), IsEmpty());
  EXPECT_THAT(streams({rollout, actor, no_kl}), ElementsAre(HasSubstr("actor.ppo_mini_batch_size below")));
  EXPECT_THAT(streams({parts, no_kl}), ElementsAre(HasSubstr("name different ranks")));
  EXPECT_THAT(streams({rollout, actor, parts, "actor.use_kl_loss=true"}),
              ElementsAre(HasSubstr("placement.reference is all ranks")));
  EXPECT_THAT(streams({rollout, actor, parts, no_kl, "rollout.steps_ahead=1"}),
              ElementsAre(HasSubstr("brings nothing to rollout.steps_ahead = 1")));
  EXPECT_THAT(streams({rollout, actor, parts, no_kl, "algorithm.filter_groups.enable=true"}),
              ElementsAre(HasSubstr("chooses from all of it")));
  EXPECT_THAT(streams({rollout, actor, parts, no_kl, "algorithm.adv_estimator=remax"}),
              ElementsAre(HasSubstr("greedy responses")));
  EXPECT_THAT(streams({rollout, actor, parts, "algorithm.name=sft"}),
              ElementsAre(HasSubstr("rollout.stream = true goes with reinforcement learning")));
}

TEST(Checks, WantPreferencesThatFitTheirLoss) {
  const auto dpo = [](std::vector<std::string> overrides) {
    overrides.push_back("algorithm.name=dpo");
    return mistakes_of(kGood, overrides);
  };
  EXPECT_THAT(dpo({}), IsEmpty());
  EXPECT_THAT(dpo({"algorithm.dpo.label_smoothing=0.1"}), IsEmpty());
  EXPECT_THAT(dpo({"algorithm.dpo.loss_type=ipo", "algorithm.dpo.reference_free=true"}), IsEmpty());
  // All at once.
  EXPECT_THAT(dpo({"algorithm.dpo.loss_type=ipo", "algorithm.dpo.label_smoothing=0.1",
                   "actor.use_kl_loss=true", "actor.ppo_epochs=2", "actor.ppo_max_token_len_per_rank=90",
                   "data.chosen_key=rejected", "algorithm.dpo.beta=0"}),
              testing::UnorderedElementsAre(
                  HasSubstr("label_smoothing = 0.1 means nothing to loss_type = \"ipo\""),
                  HasSubstr("holds the policy to the reference by itself"),
                  HasSubstr("one update of each batch"), HasSubstr("cannot hold one pair"),
                  HasSubstr("name the same column"), HasSubstr("algorithm.dpo.beta must be above 0")));
  EXPECT_THAT(dpo({"algorithm.dpo.loss_type=exo_pair"}), ElementsAre(HasSubstr("label_smoothing above 0")));
  EXPECT_THAT(dpo({"algorithm.dpo.loss_type=dop"}), ElementsAre(HasSubstr("sppo_hard")));
  EXPECT_THAT(dpo({"algorithm.dpo.label_smoothing=0.5"}), SizeIs(1));
  EXPECT_THAT(dpo({"data.rejected_key="}), ElementsAre(HasSubstr("names a column")));
  EXPECT_THAT(
      dpo({"data.task=files", "data.train_files=/dev/null", "sft.warm_start=true", "sft.max_steps=5"}),
      ElementsAre(HasSubstr("a run of its own")));
}

TEST(Checks, WantMiniBatchesThatDivideTheBatch) {
  EXPECT_EQ(only_mistake({"actor.ppo_mini_batch_size=12"}),
            "command line: actor.ppo_mini_batch_size=12: actor.ppo_mini_batch_size = 12 must divide "
            "data.train_batch_size = 32; 0 takes the whole batch");
  EXPECT_THAT(only_mistake({"actor.ppo_mini_batch_size=64"}), HasSubstr("must divide"));
  EXPECT_THAT(mistakes_of(kGood, {"actor.ppo_mini_batch_size=8"}), IsEmpty());
  // Told where it was written: the batch size is the one that was set.
  EXPECT_THAT(mistakes_of(std::string(kGood) + "[actor]\nppo_mini_batch_size = 5\n"),
              ElementsAre(HasSubstr("FILE:12: actor.ppo_mini_batch_size")));
}

TEST(Checks, WantShapesThatWork) {
  EXPECT_THAT(only_mistake({"model.init.num_attention_heads=3", "model.init.num_key_value_heads=3"}),
              HasSubstr("num_attention_heads = 3 must divide model.init.hidden_size = 128"));
  EXPECT_THAT(only_mistake({"model.init.num_key_value_heads=3"}),
              HasSubstr("must divide model.init.num_attention_heads"));
  EXPECT_THAT(only_mistake({"model.init.num_attention_heads=128"}), HasSubstr("= 1 are of odd size"));
  EXPECT_THAT(only_mistake({"model.init.max_position_embeddings=79"}), HasSubstr("= 80 is more than"));
  EXPECT_THAT(mistakes_of(kGood, {"model.init.max_position_embeddings=80"}), IsEmpty());
  EXPECT_THAT(only_mistake({"model.random_weights=true"}), HasSubstr("model.path"));
  // [model.init] is not looked at where there is a checkpoint.
  EXPECT_THAT(mistakes_of(kGood, {"model.path=m", "model.init.num_attention_heads=3"}), IsEmpty());
}

TEST(Checks, WantDataThatFitsTheTask) {
  EXPECT_THAT(only_mistake({"data.task=files"}), HasSubstr("data.train_files names no file"));
  EXPECT_THAT(only_mistake({"data.train_files=a"}), HasSubstr("not read where data.task = \"arithmetic\""));
  EXPECT_THAT(only_mistake({"data.val_files=a"}), HasSubstr("not read where data.task = \"arithmetic\""));
  EXPECT_THAT(only_mistake({"reward.name=gsm8k"}), HasSubstr("set reward.name = \"arithmetic\""));
  EXPECT_THAT(only_mistake({"data.prompt_template=Q:"}), HasSubstr("must contain {prompt}"));
  EXPECT_THAT(only_mistake({"data.chat_template_kwargs=enable_thinking"}),
              HasSubstr("must be a JSON object"));
  EXPECT_THAT(only_mistake({"data.truncation=middel"}), HasSubstr("did you mean \"middle\"?"));
  EXPECT_THAT(only_mistake({"data.answer_key="}), HasSubstr("data.answer_key is empty"));
  EXPECT_THAT(only_mistake({"data.arithmetic.min_operand=99"}), HasSubstr("must be below"));
}

TEST(Checks, WantRoomForOneSequence) {
  EXPECT_THAT(only_mistake({"actor.ppo_max_token_len_per_rank=79"}), HasSubstr("cannot hold one sequence"));
  EXPECT_THAT(only_mistake({"rollout.kv_cache_tokens=79"}), HasSubstr("cannot hold one sequence"));
  // Ranks that share sequences out hold one together, and the message says how many would.
  EXPECT_THAT(only_mistake({"actor.ppo_max_token_len_per_rank=30"}),
              HasSubstr("make it 80, or share sequences out over more ranks with actor.parallel.cp = 3"));
  EXPECT_THAT(
      only_mistake({"actor.ppo_max_token_len_per_rank=30", "actor.parallel.cp=2", "reference.parallel.cp=2"}),
      HasSubstr("on actor.parallel.cp = 2 ranks"));
  EXPECT_THAT(mistakes_of(kGood, {"actor.ppo_max_token_len_per_rank=30", "actor.parallel.cp=3",
                                  "reference.parallel.cp=3"}),
              IsEmpty());
  EXPECT_THAT(mistakes_of(kGood, {"actor.ppo_max_token_len_per_rank=80", "rollout.kv_cache_tokens=80"}),
              IsEmpty());
}

TEST(Checks, WantAWarmStartThatEndsAndComesBeforeSomething) {
  EXPECT_THAT(only_mistake({"sft.warm_start=true"}), HasSubstr("sft.warm_start needs sft.max_steps"));
  EXPECT_THAT(only_mistake({"sft.warm_start=true", "sft.max_steps=9", "algorithm.name=sft"}),
              HasSubstr("leave it out"));
  EXPECT_THAT(only_mistake({"data.task=files", "data.train_files=a", "sft.bare_batch_size=5"}),
              HasSubstr("needs data.task = \"arithmetic\""));
  EXPECT_THAT(mistakes_of(kGood, {"sft.warm_start=true", "sft.max_steps=9", "sft.bare_batch_size=5"}),
              IsEmpty());
}

TEST(Checks, WantAWarmUpShorterThanTheRun) {
  EXPECT_THAT(only_mistake({"trainer.total_training_steps=5", "actor.optim.lr_warmup_steps=6"}),
              HasSubstr("longer than the run's 5 steps"));
  // Steps, however many updates each makes.
  EXPECT_THAT(only_mistake({"trainer.total_training_steps=5", "actor.optim.lr_warmup_steps=20",
                            "actor.ppo_mini_batch_size=8"}),
              HasSubstr("actor.optim.lr_warmup_steps = 20"));
  EXPECT_THAT(only_mistake({"sft.warm_start=true", "sft.max_steps=5", "sft.optim.lr_warmup_steps=6"}),
              HasSubstr("sft.optim.lr_warmup_steps = 6"));
}

TEST(Checks, WantPlacementsThatCanBeRead) {
  EXPECT_EQ(only_mistake({"placement.rollout=0-3,x"}),
            "command line: placement.rollout=0-3,x: placement.rollout = \"0-3,x\" is no list of ranks at "
            "'x': write ranks "
            "from 0, as in \"0-3,6\"");
}

TEST(RankList, ReadsRangesAndSingleRanks) {
  EXPECT_THAT(read_ranks("0-3,6").ranks, ElementsAre(0, 1, 2, 3, 6));
  EXPECT_THAT(read_ranks(" 7 , 2 - 3 ").ranks, ElementsAre(7, 2, 3));
  EXPECT_THAT(read_ranks("").ranks, IsEmpty());
  EXPECT_EQ(read_ranks("").wrong, "");
  for (const char* bad :
       {"x", "1,", ",1", "-1", "3-1", "1-", "1 2", "0-99999999999", "1-2-3", "0,0", "0-2,1"})
    EXPECT_NE(read_ranks(bad).wrong, "") << bad;
}

// ---- paths

class PathChecks : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text = "{}") {
    const auto path = std::filesystem::path(folder_.folder()) / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  std::string in(const std::string& name) const { return folder_.folder() + "/" + name; }
  Lines mistakes(const std::vector<std::string>& overrides) const {
    return mistakes_of(kGood, overrides, Paths::check);
  }
  std::string only(const std::vector<std::string>& overrides) const {
    const Lines lines = mistakes(overrides);
    return lines.size() == 1 ? lines[0] : testing::PrintToString(lines);
  }

  const WrittenFile folder_{""};
};

TEST_F(PathChecks, NameEachFileThatIsMissing) {
  write("train.jsonl");
  const std::string files = "data.train_files=[\"" + in("train.jsonl") + "\", \"" + in("trian.jsonl") + "\"]";
  const Lines lines = mistakes({"data.task=files", files, "data.val_files=nowhere/val.jsonl"});
  ASSERT_THAT(lines, SizeIs(2));
  EXPECT_THAT(lines[0], HasSubstr("there is no file " + in("trian.jsonl") + "; did you mean " +
                                  in("train.jsonl") + "?"));
  EXPECT_THAT(lines[1], HasSubstr("there is no file nowhere/val.jsonl (looked for in " +
                                  std::filesystem::current_path().string() + ")"));
  EXPECT_THAT(only({"data.task=files", "data.train_files=" + folder_.folder()}), HasSubstr("is a folder"));
}

TEST_F(PathChecks, TellWhatACheckpointLacks) {
  write("model/other.txt");
  const std::string path = "model.path=" + in("model");
  Lines lines = mistakes({path});
  ASSERT_THAT(lines, SizeIs(3));
  EXPECT_THAT(lines[0], HasSubstr("holds no config.json"));
  EXPECT_THAT(lines[1], HasSubstr("holds no tokenizer.json"));
  EXPECT_THAT(lines[2], HasSubstr("holds no *.safetensors"));
  write("model/config.json");
  write("tokenizer/tokenizer.json");
  EXPECT_THAT(mistakes({path, "model.random_weights=true", "model.tokenizer_path=" + in("tokenizer")}),
              IsEmpty());
  EXPECT_THAT(only({path, "model.random_weights=true", "model.tokenizer_path=" + in("model")}),
              HasSubstr("model.tokenizer_path: " + in("model") + " holds no tokenizer.json"));
  write("model/tokenizer.json");
  write("model/model-00001-of-00002.safetensors");
  EXPECT_THAT(mistakes({path}), IsEmpty());
  EXPECT_THAT(only({path + "/config.json"}), HasSubstr("is a file: name the folder it lies in"));
}

TEST_F(PathChecks, KnowANameOnTheHub) {
  EXPECT_THAT(only({"model.path=Qwen/Qwen2.5-0.5B"}),
              HasSubstr("`hf download Qwen/Qwen2.5-0.5B --local-dir models/Qwen2.5-0.5B`"));
}

TEST_F(PathChecks, LookAtTheRunsFolders) {
  write("file");
  EXPECT_THAT(only({"run.output_dir=" + in("file")}), HasSubstr("is a file, not a folder"));
  EXPECT_THAT(mistakes({"run.output_dir=" + in("new")}), IsEmpty());
  EXPECT_THAT(only({"trainer.resume=atuo"}), HasSubstr("\"auto\", \"never\" or a checkpoint's folder"));
  EXPECT_THAT(mistakes({"trainer.resume=" + folder_.folder()}), IsEmpty());
}

// ---- number of ranks

Lines rank_mistakes(const RunConfig& config, int num_ranks) {
  try {
    check_ranks(config, num_ranks);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_config);
    return mistakes_in(error, "");
  }
  return {};
}

RunConfig good_config() {
  const WrittenFile file(kGood);
  return load(file.path());
}

TEST(CheckRanks, PassesBatchesThatDoNotDivideOrAreSmallerThanTheRanks) {
  RunConfig config = good_config();
  config.actor.ppo_mini_batch_size = 2;
  for (int ranks = 1; ranks <= 40; ++ranks) EXPECT_THAT(rank_mistakes(config, ranks), IsEmpty());
}

TEST(CheckRanks, KnowsTheCriticsRanks) {
  RunConfig config = good_config();
  config.placement = {.actor = "0-1", .critic = "2-3", .reference = "0", .rollout = "0-1"};
  EXPECT_THAT(rank_mistakes(config, 4), SizeIs(2));  // no estimator wants a critic: two ranks without a role
  config.algorithm.adv_estimator = "gae";
  EXPECT_THAT(rank_mistakes(config, 4), IsEmpty());
  config.parallel.critic.tp = 3;
  EXPECT_THAT(rank_mistakes(config, 4), ElementsAre(HasSubstr("critic.parallel.tp: 3 does not divide")));
  config.parallel.critic.tp = 1;
  config.placement.critic = "2-4";
  EXPECT_THAT(rank_mistakes(config, 4), Not(IsEmpty()));
}

TEST(CheckRanks, AnAxisMustFitBesideTheOthers) {
  RunConfig config = good_config();
  config.parallel.actor.tp = 2;
  config.parallel.actor.pp = 3;
  EXPECT_THAT(rank_mistakes(config, 12), IsEmpty());
  EXPECT_THAT(
      rank_mistakes(config, 8),
      ElementsAre(HasSubstr("actor.parallel.tp: 2 does not divide this role's 8 ranks beside the other "
                            "axes' 3 of each replica; these do: none"),
                  HasSubstr("actor.parallel.pp: 3 does not divide this role's 8 ranks beside the other "
                            "axes' 2 of each replica; these do: 1, 2, 4")));
}

TEST(CheckRanks, KnowsWhichRolesPreferencesHave) {
  RunConfig config;
  config.algorithm.name = "dpo";
  config.placement.actor = "0";
  config.placement.reference = "1";
  const auto told = [&](int ranks) {
    try {
      check_ranks(config, ranks);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(told(2), "") << "files have nothing to generate";
  EXPECT_THAT(told(3), HasSubstr("rank 2 has no role"));
  config.data.task = "arithmetic";
  config.placement.rollout = "2";
  EXPECT_EQ(told(3), "");
  config.algorithm.dpo.reference_free = true;
  EXPECT_THAT(told(3), HasSubstr("rank 1 has no role"));
}

TEST(CheckRanks, NamesPlacementsOnRanksThatDoNotExist) {
  RunConfig config = good_config();
  config.placement.actor = "0-1";
  config.placement.rollout = "2-5";
  EXPECT_THAT(rank_mistakes(config, 6), IsEmpty());
  EXPECT_EQ(
      rank_mistakes(config, 4),
      Lines{"placement.rollout: \"2-5\" names rank 4, but the run has 4 ranks (0 to 3): start at least 6"});
  EXPECT_THAT(rank_mistakes(config, 7), ElementsAre(HasSubstr("rank 6 has no role")));
  config.placement.reference = "6";  // that nothing needs
  EXPECT_THAT(rank_mistakes(config, 7), ElementsAre(HasSubstr("rank 6 has no role")));
  config.actor.loss.use_kl_loss = true;
  EXPECT_THAT(rank_mistakes(config, 7), IsEmpty());
}

}  // namespace
}  // namespace trireme::config
