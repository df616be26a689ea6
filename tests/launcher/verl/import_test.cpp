#include "launcher/verl/import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "launcher/verl/rules.h"
#include "runtime/base/error.h"
#include "runtime/base/files.h"
#include "tests/trainer/config/written_file.h"
#include "trainer/config/load.h"
#include "trainer/config/schema.h"

namespace trireme::verl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::optional<std::string> home(const std::string& name) {
  return name == "HOME" ? std::optional<std::string>("/home/u") : std::nullopt;
}

Import imported(const std::string& text, const std::string& name = "run.sh") {
  Settings settings;
  read_settings(text, name, home, settings);
  return import(std::move(settings), name, home);
}

/// Of a command with these overrides.
Import of(const std::vector<std::string>& overrides) {
  std::string command = "python3 -m verl.trainer.main_ppo";
  for (const std::string& text : overrides) command += " '" + text + "'";
  return imported(command);
}

const Entry& entry(const Import& import, const std::string& key) {
  for (const Entry& e : import.entries)
    if (e.key == key) return e;
  throw std::runtime_error("no entry for " + key);
}

/// The value of one of our keys in the whole that results.
std::string value(const Import& import, const std::string& key) {
  for (const Line& line : import.lines)
    if (line.key == key) return line.value;
  return config::default_text(*config::find_key(key));
}

std::vector<std::string> unsupported(const Import& import) {
  std::vector<std::string> keys;
  for (const Entry& e : import.entries)
    if (e.fate == Fate::unsupported) keys.push_back(e.key);
  return keys;
}

// ---- Real commands.

TEST(Import, EveryKeyOfRealCommandsIsAccountedFor) {
  const std::filesystem::path folder(std::string(std::getenv("TRIREME_SOURCE_DIR")) +
                                     "/tests/launcher/verl/commands");
  size_t commands = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    SCOPED_TRACE(file.path().filename().string());
    Settings settings;
    read_settings(files::read(file.path().string()), file.path().string(), home, settings);
    EXPECT_GE(settings.settings.size(), 20u);
    const Import made = import(settings, file.path().string(), home);
    ASSERT_EQ(made.entries.size(), settings.settings.size());
    const std::string words = report(made);
    for (size_t i = 0; i < made.entries.size(); ++i) {
      EXPECT_EQ(made.entries[i].key, settings.settings[i].key);
      EXPECT_FALSE(made.entries[i].text.empty()) << made.entries[i].key;
      EXPECT_THAT(words, HasSubstr(made.entries[i].key));
      EXPECT_THAT(made.entries[i].text, Not(HasSubstr("not a key"))) << made.entries[i].key;
    }
    EXPECT_THAT(made.conflicts, IsEmpty());
    const config::WrittenFile toml(made.toml);
    const config::LoadedConfig loaded = config::load_with_origins(toml.path(), {}, config::Paths::ignore);
    EXPECT_NO_THROW(config::check_ranks(loaded.config, static_cast<int>(loaded.config.run.ranks)));
    for (const Line& line : made.lines) {
      EXPECT_TRUE(loaded.origins.count(line.key)) << line.key;
      EXPECT_EQ(config::value_text(*config::find_key(line.key), loaded.config), line.value) << line.key;
    }
    ++commands;
  }
  EXPECT_GE(commands, 12u);
}

TEST(Import, ThePpoExampleKeepsItsMeaning) {
  const std::string folder =
      std::string(std::getenv("TRIREME_SOURCE_DIR")) + "/tests/launcher/verl/commands/";
  const Import made = imported(files::read(folder + "docs_gsm8k_ppo.sh"));
  EXPECT_EQ(value(made, "algorithm.adv_estimator"), "\"gae\"");
  EXPECT_EQ(value(made, "critic.optim.lr"), "1e-5");
  EXPECT_EQ(value(made, "critic.model.path"), value(made, "model.path"));
  EXPECT_EQ(value(made, "critic.cliprange_value"), "0.5");
  for (const Entry& entry : made.entries)
    EXPECT_FALSE(entry.key.rfind("critic.", 0) == 0 && entry.fate == Fate::unsupported) << entry.key;
}

TEST(Import, TheGrpoExampleKeepsItsMeaning) {
  const std::string folder =
      std::string(std::getenv("TRIREME_SOURCE_DIR")) + "/tests/launcher/verl/commands/";
  const Import made = imported(files::read(folder + "docs_gsm8k_grpo.sh"));
  EXPECT_EQ(value(made, "algorithm.adv_estimator"), "\"grpo\"");
  EXPECT_EQ(value(made, "data.train_files"), "[\"/home/u/data/gsm8k/train.parquet\"]");
  EXPECT_EQ(value(made, "model.path"), "\"Qwen/Qwen3-8B\"");
  EXPECT_EQ(value(made, "run.ranks"), "8");
  EXPECT_EQ(value(made, "run.name"), "\"qwen3_8b_function_rm\"");
  EXPECT_EQ(value(made, "actor.ppo_mini_batch_size"), "256");
  EXPECT_EQ(value(made, "actor.ppo_max_token_len_per_rank"), "49152");
  EXPECT_EQ(value(made, "actor.parallel.zero_stage"), "3");
  EXPECT_EQ(value(made, "rollout.parallel.tp"), "2");
  EXPECT_EQ(value(made, "rollout.n"), "5");
  EXPECT_EQ(value(made, "reward.name"), "\"gsm8k\"");
  EXPECT_EQ(value(made, "trainer.total_epochs"), "15");
  EXPECT_THAT(made.toml, HasSubstr("lr = 1e-6  # actor_rollout_ref.actor.optim.lr=1e-6"));
}

TEST(Import, ARewardModelJudgesAlone) {
  const std::string folder =
      std::string(std::getenv("TRIREME_SOURCE_DIR")) + "/tests/launcher/verl/commands/";
  const Import made = imported(files::read(folder + "ppo_reward_model_7b.sh"));
  EXPECT_EQ(value(made, "reward_model.path"), "\"/home/u/models/FsfairX-LLaMA3-RM-v0.1\"");
  EXPECT_EQ(value(made, "reward.name"), "\"none\"");
  EXPECT_EQ(value(made, "reward_model.input"), "\"text\"");
  for (const std::string& key : unsupported(made)) EXPECT_THAT(key, Not(HasSubstr("reward"))) << key;
  EXPECT_THAT(made.conflicts, IsEmpty());
  const Import now = of({"reward.reward_model.enable=True", "reward.reward_model.model_path=/m/rm",
                         "reward.reward_model.rollout.tensor_model_parallel_size=2",
                         "custom_reward_function.path=f.py", "reward.reward_model.enable_resource_pool=True"});
  EXPECT_EQ(value(now, "reward_model.path"), "\"/m/rm\"");
  EXPECT_EQ(value(now, "reward_model.parallel.tp"), "2");
  EXPECT_THAT(now.notes, ::testing::Contains(HasSubstr("set reward.weight = 0 to have the model alone")));
  EXPECT_THAT(unsupported(now), ElementsAre("reward.reward_model.enable_resource_pool"));
}

// ---- Every mapped key changes what it says it changes.

/// Two values that the key takes, in verl's words.
std::pair<std::string, std::string> samples(const config::Key& key) {
  const std::string type = config::type_name(key);
  if (type == "true or false") return {"True", "False"};
  if (type == "list of strings") return {"/a.parquet", "[/b.parquet,/c.parquet]"};
  const config::Rule& rule = key.rule;
  if (!rule.choices.empty()) return {rule.choices[0], rule.choices[1]};
  if (type == "string") return {"one", "two"};
  const double low = rule.min.value_or(1), high = rule.max.value_or(low + 100);
  if (type == "integer") {
    const auto at = static_cast<int64_t>(low) + 1;
    return {std::to_string(at), std::to_string(at + 1)};
  }
  return {std::to_string(low + (high - low) / 4), std::to_string(low + (high - low) / 2)};
}

TEST(Import, ChangingAMappedKeyChangesTheResult) {
  for (const Row& row : rows()) {
    if (row.fate != Fate::mapped) continue;
    const config::Key* key = config::find_key(row.to);
    ASSERT_NE(key, nullptr) << row.key << " -> " << row.to;
    const auto [one, two] = samples(*key);
    std::vector<std::string> context;
    if (row.key.rfind("critic.", 0) == 0 || row.key == "trainer.critic_warmup")
      context = {"algorithm.adv_estimator=gae"};
    if (row.key.rfind("reward_model.", 0) == 0) context = {"reward_model.enable=True"};
    if (row.key.rfind("reward.reward_model.", 0) == 0) context = {"reward.reward_model.enable=True"};
    const auto with = [&](const std::string& text) {
      auto overrides = context;
      overrides.push_back(row.key + "=" + text);
      return of(overrides);
    };
    const Import a = with(one), b = with(two);
    EXPECT_EQ(entry(a, row.key).fate, Fate::mapped) << row.key << ": " << entry(a, row.key).text;
    EXPECT_EQ(entry(b, row.key).fate, Fate::mapped) << row.key << ": " << entry(b, row.key).text;
    EXPECT_NE(value(a, row.to), value(b, row.to)) << row.key << ": " << one << " and " << two;
    // The verl default that is written out for it is a value of ours.
    if (!row.verl_default.empty()) {
      EXPECT_EQ(entry(with(row.verl_default), row.key).fate, Fate::mapped) << row.key;
    }
  }
}

struct Change {
  std::string key, one, two, to;
  std::vector<std::string> context = {};
};

const std::vector<Change>& changes() {
  static const std::string a = "actor_rollout_ref.actor.", r = "actor_rollout_ref.rollout.", c = "critic.";
  static const std::string size = "data.train_batch_size=64";
  static const std::string gae = "algorithm.adv_estimator=gae", megatron = a + "strategy=megatron";
  static const std::string sampled = r + "val_kwargs.do_sample=True";
  static const std::vector<Change> all{
      {"trainer.n_gpus_per_node", "4", "2", "run.ranks"},
      {"trainer.nnodes", "1", "2", "run.ranks"},
      {"rollout.n_gpus_per_node", "1", "2", "placement.rollout"},
      {"rollout.nnodes", "1", "2", "placement.rollout", {"rollout.n_gpus_per_node=1"}},
      {"trainer.default_local_dir", "a", "b", "run.output_dir"},
      {"trainer.project_name", "a", "b", "run.output_dir"},
      {"trainer.resume_mode", "auto", "disable", "trainer.resume"},
      {"trainer.resume_from_path", "a", "b", "trainer.resume", {"trainer.resume_mode=resume_path"}},
      {a + "ppo_mini_batch_size", "32", "16", "actor.ppo_mini_batch_size", {size}},
      {a + "use_dynamic_bsz",
       "True",
       "False",
       "actor.ppo_max_token_len_per_rank",
       {a + "ppo_max_token_len_per_gpu=9999"}},
      {a + "ppo_max_token_len_per_gpu",
       "8192",
       "4096",
       "actor.ppo_max_token_len_per_rank",
       {a + "use_dynamic_bsz=True"}},
      {a + "ppo_micro_batch_size_per_gpu", "4", "8", "actor.ppo_max_token_len_per_rank"},
      {a + "ppo_micro_batch_size", "64", "128", "actor.ppo_max_token_len_per_rank"},
      {a + "clip_ratio", "0.1", "0.3", "actor.clip_ratio_low"},
      {a + "clip_ratio_low", "0.1", "0.3", "actor.clip_ratio_low"},
      {a + "clip_ratio_high", "0.1", "0.3", "actor.clip_ratio_high"},
      {a + "loss_agg_mode", "token-mean", "seq-mean-token-sum", "actor.loss_agg_mode"},
      {"algorithm.rollout_correction.rollout_is_threshold", "2.5", "0.5_3.0",
       "algorithm.rollout_correction.rollout_is_threshold"},
      {a + "optim.lr_warmup_steps", "5", "6", "actor.optim.lr_warmup_steps"},
      {a + "optim.lr_warmup_steps_ratio",
       "0.1",
       "0.2",
       "actor.optim.lr_warmup_steps",
       {"trainer.total_training_steps=100"}},
      {"reward_model.enable", "True", "False", "reward.name"},
      {"reward.reward_model.enable", "True", "False", "reward.name"},
      {"reward_model.model.input_tokenizer", "/t", "null", "reward_model.input", {"reward_model.enable=True"}},
      {a + "optim.betas", "[0.9,0.95]", "[0.9,0.99]", "actor.optim.beta2"},
      {a + "strategy", "fsdp", "megatron", "actor.parallel.zero_stage"},
      {a + "fsdp_config.reshard_after_forward", "True", "False", "actor.parallel.zero_stage"},
      {a + "fsdp_config.fsdp_size", "1", "-1", "actor.parallel.zero_stage"},
      {a + "megatron.tensor_model_parallel_size", "2", "4", "actor.parallel.tp", {megatron}},
      {a + "megatron.pipeline_model_parallel_size", "2", "4", "actor.parallel.pp", {megatron}},
      {a + "megatron.use_distributed_optimizer", "True", "False", "actor.parallel.zero_stage", {megatron}},
      {"actor_rollout_ref.ref.megatron.tensor_model_parallel_size",
       "2",
       "4",
       "reference.parallel.tp",
       {megatron}},
      {a + "megatron.context_parallel_size", "2", "4", "actor.parallel.cp", {megatron}},
      {a + "ulysses_sequence_parallel_size", "2", "4", "actor.parallel.cp"},
      {"actor_rollout_ref.ref.megatron.context_parallel_size", "2", "4", "reference.parallel.cp", {megatron}},
      {"actor_rollout_ref.ref.ulysses_sequence_parallel_size", "2", "4", "reference.parallel.cp"},
      {"actor_rollout_ref.ref.megatron.pipeline_model_parallel_size",
       "2",
       "4",
       "reference.parallel.pp",
       {megatron}},
      {r + "tensor_model_parallel_size", "2", "4", "rollout.parallel.tp"},
      {a + "fsdp_config.dtype", "bfloat16", "float32", "model.dtype"},
      {a + "megatron.dtype", "bfloat16", "float32", "model.dtype"},
      {r + "dtype", "bfloat16", "float32", "model.dtype"},
      {"data.apply_chat_template_kwargs.enable_thinking", "True", "False", "data.chat_template_kwargs"},
      {r + "val_kwargs.do_sample",
       "True",
       "False",
       "rollout.val_kwargs.temperature",
       {r + "val_kwargs.temperature=0.6"}},
      {r + "val_kwargs.temperature", "0.6", "1.0", "rollout.val_kwargs.temperature", {sampled}},
      {r + "val_kwargs.n", "4", "8", "rollout.val_kwargs.n", {sampled, r + "val_kwargs.temperature=0.6"}},
      {r + "val_kwargs.top_k",
       "20",
       "50",
       "rollout.val_kwargs.top_k",
       {sampled, r + "val_kwargs.temperature=0.6"}},
      {r + "val_kwargs.top_p",
       "0.7",
       "0.95",
       "rollout.val_kwargs.top_p",
       {sampled, r + "val_kwargs.temperature=0.6"}},
      {c + "use_dynamic_bsz",
       "True",
       "False",
       "critic.ppo_max_token_len_per_rank",
       {gae, c + "ppo_max_token_len_per_gpu=9999"}},
      {c + "ppo_max_token_len_per_gpu",
       "8192",
       "4096",
       "critic.ppo_max_token_len_per_rank",
       {gae, c + "use_dynamic_bsz=True"}},
      {c + "ppo_micro_batch_size_per_gpu", "4", "8", "critic.ppo_max_token_len_per_rank", {gae}},
      {c + "ppo_micro_batch_size", "64", "128", "critic.ppo_max_token_len_per_rank", {gae}},
      {c + "optim.lr_warmup_steps", "5", "6", "critic.optim.lr_warmup_steps", {gae}},
      {c + "optim.lr_warmup_steps_ratio",
       "0.1",
       "0.2",
       "critic.optim.lr_warmup_steps",
       {gae, "trainer.total_training_steps=100"}},
      {c + "optim.betas", "[0.9,0.95]", "[0.9,0.99]", "critic.optim.beta2", {gae}},
      {c + "strategy", "fsdp", "megatron", "critic.parallel.zero_stage", {gae}},
      {c + "fsdp.reshard_after_forward", "True", "False", "critic.parallel.zero_stage", {gae}},
      {c + "fsdp.fsdp_size", "1", "-1", "critic.parallel.zero_stage", {gae}},
      {c + "model.fsdp_config.reshard_after_forward", "True", "False", "critic.parallel.zero_stage", {gae}},
      {c + "model.fsdp_config.fsdp_size", "1", "-1", "critic.parallel.zero_stage", {gae}},
      {c + "megatron.tensor_model_parallel_size",
       "2",
       "4",
       "critic.parallel.tp",
       {gae, c + "strategy=megatron"}},
      {c + "megatron.context_parallel_size", "2", "4", "critic.parallel.cp", {gae, c + "strategy=megatron"}},
      {c + "ulysses_sequence_parallel_size", "2", "4", "critic.parallel.cp", {gae}},
      {c + "megatron.pipeline_model_parallel_size",
       "2",
       "4",
       "critic.parallel.pp",
       {gae, c + "strategy=megatron"}},
      {c + "megatron.use_distributed_optimizer",
       "True",
       "False",
       "critic.parallel.zero_stage",
       {gae, c + "strategy=megatron"}}};
  return all;
}

TEST(Import, ChangingAKeyOfARuleChangesTheResult) {
  std::set<std::string> covered;
  for (const Change& change : changes()) {
    covered.insert(change.key);
    const config::Key* key = config::find_key(change.to);
    ASSERT_NE(key, nullptr) << change.to;
    const auto with = [&](const std::string& text) {
      auto overrides = change.context;
      overrides.push_back(change.key + "=" + text);
      return of(overrides);
    };
    const Import a = with(change.one), b = with(change.two);
    EXPECT_NE(value(a, change.to), value(b, change.to)) << change.key;
    for (const Import* import : {&a, &b})
      EXPECT_NE(entry(*import, change.key).fate, Fate::unsupported)
          << change.key << ": " << entry(*import, change.key).text;
  }
  for (const Rule& rule : rules()) {
    for (const std::string& to : rule.to) EXPECT_TRUE(config::find_key(to) != nullptr) << to;
    for (const std::string& key : rule.keys)
      EXPECT_TRUE(key.back() == '*' || covered.count(key)) << key << " is in no change of this test";
  }
}

TEST(Import, NoKeyHasTwoRowsAndEveryRowSaysSomething) {
  std::set<std::string> seen;
  for (const Rule& rule : rules())
    for (const std::string& key : rule.keys) EXPECT_TRUE(seen.insert(key).second) << key;
  for (const Row& row : rows()) {
    EXPECT_TRUE(seen.insert(row.key).second) << row.key;
    EXPECT_TRUE(row.fate == Fate::mapped || !row.text.empty()) << row.key;
  }
}

// ---- Units, conflicts, defaults.

TEST(Import, ConvertsUnits) {
  // The schedule counts steps in both, however many updates a step makes.
  const Import made =
      of({"data.train_batch_size=256", "actor_rollout_ref.actor.ppo_mini_batch_size=64",
          "actor_rollout_ref.actor.ppo_epochs=2", "actor_rollout_ref.actor.optim.lr_warmup_steps=10"});
  EXPECT_EQ(value(made, "actor.optim.lr_warmup_steps"), "10");
  // Sequences of 512 + 1024 tokens; the older key counts over all 8 GPUs.
  const std::string long_responses = "data.max_response_length=1024";
  EXPECT_EQ(value(of({long_responses, "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=40"}),
                  "actor.ppo_max_token_len_per_rank"),
            std::to_string(40 * 1536));
  EXPECT_EQ(value(of({long_responses, "actor_rollout_ref.actor.ppo_micro_batch_size=128"}),
                  "actor.ppo_max_token_len_per_rank"),
            std::to_string(16 * 1536));
  EXPECT_EQ(value(of({"data.max_response_length=8192", "actor_rollout_ref.actor.use_dynamic_bsz=True",
                      "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=4096"}),
                  "actor.ppo_max_token_len_per_rank"),
            std::to_string(512 + 8192));
  EXPECT_EQ(value(of({"actor_rollout_ref.actor.clip_ratio_low=10"}), "actor.clip_ratio_low"), "1.0");
  EXPECT_EQ(value(of({"actor_rollout_ref.rollout.top_k=0"}), "rollout.top_k"), "-1");
  EXPECT_EQ(value(of({"algorithm.rollout_correction.rollout_is_threshold=0.5_3.0"}),
                  "algorithm.rollout_correction.rollout_is_threshold_low"),
            "0.5");
}

TEST(Import, BypassModeNeedsNoCorrection) {
  const std::string c = "algorithm.rollout_correction.";
  const Import made = of({c + "bypass_mode=True", c + "rollout_is=token", c + "rollout_rs=token_k1",
                          "actor_rollout_ref.rollout.n=4", "algorithm.adv_estimator=grpo",
                          "data.train_files=/gsm8k.parquet"});
  EXPECT_EQ(value(made, c + "bypass_mode"), "true");
  EXPECT_EQ(value(made, c + "rollout_is"), "\"auto\"");
  EXPECT_EQ(entry(made, c + "rollout_is").fate, Fate::needless);
  EXPECT_THAT(unsupported(made), ElementsAre(c + "rollout_rs"));
}

TEST(Import, OneStepOffGivesRolloutRanksOfItsOwn) {
  const std::vector<std::string> command{
      "algorithm.adv_estimator=grpo", "actor_rollout_ref.rollout.n=4", "data.train_files=/gsm8k.parquet",
      "actor_rollout_ref.hybrid_engine=False", "trainer.nnodes=1", "trainer.n_gpus_per_node=6",
      "rollout.nnodes=1", "rollout.n_gpus_per_node=2", "actor_rollout_ref.rollout.tensor_model_parallel_size=2",
      "actor_rollout_ref.actor.use_kl_loss=True", "actor_rollout_ref.model.path=/models/a"};
  const Import made = of(command);
  EXPECT_THAT(unsupported(made), IsEmpty());
  EXPECT_THAT(made.conflicts, IsEmpty());
  EXPECT_EQ(value(made, "run.ranks"), "8");
  EXPECT_EQ(value(made, "placement.actor"), "\"0-5\"");
  EXPECT_EQ(value(made, "placement.reference"), "\"0-5\"");
  EXPECT_EQ(value(made, "placement.rollout"), "\"6-7\"");
  EXPECT_EQ(value(made, "rollout.steps_ahead"), "1");
  EXPECT_EQ(value(made, "algorithm.rollout_correction.rollout_is"), "\"none\"");  // verl's default
  auto corrected = command;
  corrected.push_back("algorithm.rollout_correction.rollout_is=token");
  EXPECT_EQ(value(of(corrected), "algorithm.rollout_correction.rollout_is"), "\"token\"");
  EXPECT_EQ(value(of({"algorithm.adv_estimator=grpo"}), "rollout.steps_ahead"), "0");
}

TEST(Import, LossesOverWholeResponsesAreAveragedAsVerlDoes) {
  for (const char* mode : {"gspo", "sapo", "geo_mean"})
    EXPECT_EQ(value(of({std::string("actor_rollout_ref.actor.policy_loss.loss_mode=") + mode,
                        "actor_rollout_ref.actor.loss_agg_mode=token-mean"}),
                    "actor.loss_agg_mode"),
              "\"seq-mean-token-mean\"");
}

TEST(Import, SaysWhatDoesNotFitTogether) {
  Import made = of({"data.train_batch_size=100", "actor_rollout_ref.actor.ppo_mini_batch_size=30"});
  EXPECT_EQ(value(made, "actor.ppo_mini_batch_size"), "25");
  EXPECT_THAT(entry(made, "actor_rollout_ref.actor.ppo_mini_batch_size").text,
              HasSubstr("30 does not divide"));
  made = of({"data.seed=1", "actor_rollout_ref.rollout.seed=2"});
  EXPECT_EQ(value(made, "run.seed"), "1");
  EXPECT_EQ(entry(made, "actor_rollout_ref.rollout.seed").fate, Fate::unsupported);
  EXPECT_THAT(entry(made, "actor_rollout_ref.rollout.seed").text, HasSubstr("data.seed=1"));
  made = of({"trainer.n_gpus_per_node=3", "actor_rollout_ref.rollout.tensor_model_parallel_size=2"});
  EXPECT_THAT(made.conflicts, Not(IsEmpty()));
}

TEST(Import, SequencesAreSharedOutAsUlyssesWould) {
  const std::string a = "actor_rollout_ref.actor.", r = "actor_rollout_ref.ref.";
  const std::vector<std::string> sizes{"data.max_prompt_length=1000", "data.max_response_length=3000",
                                       "trainer.n_gpus_per_node=8"};
  const auto with = [&](std::vector<std::string> given) {
    given.insert(given.end(), sizes.begin(), sizes.end());
    return of(given);
  };
  Import made = with({a + "ulysses_sequence_parallel_size=4", a + "use_dynamic_bsz=True",
                      a + "ppo_max_token_len_per_gpu=1500", "critic.ulysses_sequence_parallel_size=2",
                      "algorithm.adv_estimator=gae"});
  EXPECT_EQ(value(made, "actor.parallel.cp"), "4");
  EXPECT_EQ(value(made, "reference.parallel.cp"), "4");  // verl's follows the actor
  EXPECT_EQ(value(made, "critic.parallel.cp"), "2");
  EXPECT_EQ(value(made, "actor.ppo_max_token_len_per_rank"), "1500");  // four of them hold 4000
  EXPECT_EQ(entry(made, a + "ulysses_sequence_parallel_size").fate, Fate::mapped);
  // Micro-batches of whole sequences, of which each rank has its share of the rows.
  made = with({a + "ulysses_sequence_parallel_size=2", a + "ppo_micro_batch_size_per_gpu=3",
               r + "ulysses_sequence_parallel_size=1"});
  EXPECT_EQ(value(made, "actor.ppo_max_token_len_per_rank"), "6000");
  EXPECT_EQ(value(made, "reference.parallel.cp"), "1");
  // With Megatron the other key counts.
  made = with({a + "strategy=megatron", a + "megatron.context_parallel_size=2",
               a + "ulysses_sequence_parallel_size=4"});
  EXPECT_EQ(value(made, "actor.parallel.cp"), "2");
  EXPECT_EQ(entry(made, a + "ulysses_sequence_parallel_size").fate, Fate::needless);
}

TEST(Import, WritesVerlsDefaultsWhereOursDiffer) {
  const Import made = of({"algorithm.adv_estimator=grpo"});
  EXPECT_EQ(value(made, "model.enable_gradient_checkpointing"), "true");
  EXPECT_EQ(value(made, "actor.ppo_mini_batch_size"), "256");
  EXPECT_EQ(value(made, "trainer.total_epochs"), "30");
  EXPECT_EQ(value(made, "actor.optim.weight_decay"), "0.01");
  EXPECT_EQ(value(made, "actor.optim.beta2"), "0.999");
  EXPECT_EQ(value(of({"actor_rollout_ref.model.enable_gradient_checkpointing=False"}),
                  "model.enable_gradient_checkpointing"),
            "false");
}

TEST(Import, WrongValuesAreSaid) {
  const Import made =
      of({"data.train_batch_size=many", "algorithm.adv_estimator=alchemy", "data.shuffel=True",
          "actor_rollout_ref.actor.clip_ratio_c=0.5", "actor_rollout_ref.model.lora_rank=32"});
  EXPECT_EQ(unsupported(made).size(), 5u);
  EXPECT_THAT(entry(made, "data.train_batch_size").text, HasSubstr("must be an integer, found 'many'"));
  EXPECT_THAT(entry(made, "algorithm.adv_estimator").text, HasSubstr("must be one of grpo"));
  EXPECT_THAT(entry(made, "data.shuffel").text, HasSubstr("data.shuffle is one"));
  EXPECT_THAT(entry(made, "actor_rollout_ref.actor.clip_ratio_c").text, HasSubstr("must be above 1"));
  EXPECT_THAT(made.toml, HasSubstr("# Not taken over:\n#   data.train_batch_size=many: "));
  EXPECT_THAT(entry(of({"actor_rollout_ref.model.lora_rank=0", "actor_rollout_ref.model.lora_alpha=16"}),
                    "actor_rollout_ref.model.lora_alpha")
                  .text,
              HasSubstr("LoRA is off"));
}

TEST(Import, NonsenseIsAccountedForToo) {
  for (const Rule& rule : rules())
    for (const std::string& key : rule.keys)
      for (const char* nonsense : {"x y", "-7", "[a,b,c]", "9007199254740993", "1e300", "nan", "{a: b}"}) {
        const std::string name = key.back() == '*' ? key.substr(0, key.size() - 1) + "x" : key;
        const Import made = of({name + "=" + nonsense, "algorithm.adv_estimator=grpo"});
        ASSERT_EQ(made.entries.size(), 2u) << name << " = " << nonsense;
        EXPECT_FALSE(made.entries[0].text.empty()) << name << " = " << nonsense;
      }
}

TEST(Import, NullAsksForNothing) {
  for (const Rule& rule : rules())
    for (const std::string& key : rule.keys) {
      if (key.back() == '*') continue;
      const Import made = of({key + "=null", "algorithm.adv_estimator=gae"});
      EXPECT_EQ(entry(made, key).fate, Fate::needless) << key;
      EXPECT_EQ(made.lines.size(), of({"algorithm.adv_estimator=gae"}).lines.size()) << key;
    }
}

// ---- What commands look like.

TEST(ImportCommand, SignsBeforeKeys) {
  const Import made = imported(
      "python3 -m verl.trainer.main_ppo data.seed=1 +data.apply_chat_template_kwargs.enable_thinking=False "
      "++data.shuffle=False trainer.save_freq=3 ~trainer.save_freq '+ray_kwargs.ray_init={num_cpus:4}'");
  EXPECT_EQ(value(made, "data.chat_template_kwargs"), "\"{\\\"enable_thinking\\\":false}\"");
  EXPECT_EQ(value(made, "data.shuffle"), "false");
  EXPECT_EQ(value(made, "trainer.save_freq"), "-1");
  EXPECT_EQ(entry(made, "~trainer.save_freq").fate, Fate::needless);
  EXPECT_EQ(entry(made, "ray_kwargs.ray_init.num_cpus").written, "4");
}

TEST(ImportCommand, WhatIsNotKnownIsNotGuessed) {
  const Import made = imported(
      "python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=$NO_SUCH_MODEL "
      "trainer.experiment_name=x-$(date) "
      "data.train_batch_size=64");
  EXPECT_THAT(unsupported(made), ElementsAre("actor_rollout_ref.model.path", "trainer.experiment_name"));
  EXPECT_THAT(entry(made, "actor_rollout_ref.model.path").text, HasSubstr("$NO_SUCH_MODEL"));
  EXPECT_EQ(value(made, "model.path"), "\"\"");
}

TEST(ImportCommand, GoesOnBehindACommentedLine) {
  const Import made = imported(
      "python3 -m verl.trainer.main_ppo \\\n  data.seed=1 \\\n  # data.seed=2 \\\n  trainer.total_epochs=3 "
      "\\\n");
  EXPECT_EQ(value(made, "run.seed"), "1");
  EXPECT_EQ(value(made, "trainer.total_epochs"), "3");
  ASSERT_EQ(made.notes.size(), 2u);
  EXPECT_THAT(made.notes[0], HasSubstr("run.sh:4: a shell would end the command before this line"));
}

TEST(ImportCommand, RefusesWhatHoldsNoCommand) {
  for (const char* text : {"", "echo hello", "set -x\n# data.seed=1"}) {
    try {
      imported(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_THAT(error.message(), HasSubstr("neither verl's YAML nor a command"));
    }
  }
}

// ---- YAML.

TEST(ImportYaml, TablesListsAndReferences) {
  const Import made = imported(R"(
data:
  train_files: [/a.parquet, /b.parquet]
  max_prompt_length: 256
  tokenizer: null
actor_rollout_ref:
  actor:
    _target_: verl.workers.config.FSDPActorConfig
    ppo_mini_batch_size: 64
    optim: {lr: 2e-6, betas: [0.9, 0.98]}
  rollout:
    'n': 4
    prompt_length: ${data.max_prompt_length}
    max_model_len: ${oc.select:data.no_such_key,2048}
critic:
  ppo_mini_batch_size: ${oc.select:actor_rollout_ref.actor.ppo_mini_batch_size,256}
algorithm: {adv_estimator: grpo}
trainer:
  project_name: p
  default_local_dir: ck/${trainer.project_name}/${.experiment_name}
  experiment_name: e
  logger: [console]
)",
                               "run.yaml");
  EXPECT_EQ(value(made, "data.train_files"), "[\"/a.parquet\", \"/b.parquet\"]");
  EXPECT_EQ(value(made, "actor.optim.beta2"), "0.98");
  EXPECT_EQ(value(made, "rollout.n"), "4");
  EXPECT_EQ(value(made, "rollout.max_model_len"), "2048");
  EXPECT_EQ(value(made, "run.output_dir"), "\"ck/p/e\"");
  EXPECT_EQ(entry(made, "critic.ppo_mini_batch_size").written, "64");
  EXPECT_EQ(entry(made, "actor_rollout_ref.rollout.prompt_length").written, "256");
  EXPECT_THAT(unsupported(made), IsEmpty());
  EXPECT_EQ(entry(made, "trainer.logger").where, "run.yaml:22");
}

TEST(ImportYaml, WhatAWholeConfigurationOfVerlsLeavesOffAsksForNothing) {
  const Import made = imported(R"(
actor_rollout_ref:
  actor: {optim: {override_optimizer_config: {}}, shuffle: false, ulysses_sequence_parallel_size: 1, load_weight: true,
          router_replay: {mode: disabled, record_file: x}, profiler: {enable: false, ranks: []}}
  rollout: {ignore_eos: false, quantization: null, data_parallel_size: 1, val_kwargs: {do_sample: false, n: 1, top_p: 1.0},
            multi_turn: {enable: false, max_parallel_calls: 1, format: hermes}, layer_name_map: {qkv_layer_name: qkv}}
  model: {override_config: {}, lora_rank: 0, lora_alpha: 16, lora: {rank: 0, alpha: 32}, mtp: {enable: false, method: mtp}}
data: {apply_chat_template_kwargs: {}, custom_cls: {path: null, name: null}}
critic: {strategy: fsdp, optim: {lr: 1e-5}}
reward_model: {enable: false, model: {path: m}, reward_manager: naive, sandbox_fusion: {url: null, max_concurrent: 64}}
algorithm: {adv_estimator: grpo, use_pf_ppo: false, pf_ppo: {weight_pow: 2.0}}
trainer: {critic_warmup: 0, val_only: false, resume_mode: auto, resume_from_path: null}
transfer_queue: {enable: false}
)",
                               "whole.yaml");
  EXPECT_THAT(unsupported(made), IsEmpty());
}

TEST(ImportYaml, ACommandGoesBeforeTheFile) {
  Settings settings;
  read_settings("data:\n  seed: 1\ntrainer:\n  total_epochs: 2\n", "a.yaml", home, settings);
  read_settings("python3 -m verl.trainer.main_ppo --config-name=a data.seed=7", "run.sh", home, settings);
  const Import made = import(settings, "both", home);
  EXPECT_EQ(value(made, "run.seed"), "7");
  EXPECT_EQ(value(made, "trainer.total_epochs"), "2");
}

TEST(ImportYaml, ReferencesInACircleEnd) {
  const Import made = imported(
      "trainer:\n  project_name: ${trainer.experiment_name}\n  experiment_name: ${trainer.project_name}\n",
      "a.yaml");
  EXPECT_EQ(made.entries.size(), 2u);
}

TEST(ImportYaml, WhatCannotBeReadNamesItsPlace) {
  for (const char* text : {"data:\n  seed: [1\n", "data:\n  - a: b\n c", "data: {a: b"}) {
    try {
      imported(text, "a.yaml");
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_config);
      EXPECT_THAT(error.message(), HasSubstr("a.yaml:")) << error.message();
    }
  }
}

}  // namespace
}  // namespace trireme::verl
