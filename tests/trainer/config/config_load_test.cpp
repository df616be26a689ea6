#include "trainer/config/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/config/written_file.h"
#include "trainer/config/schema.h"

namespace trireme::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

RunConfig loaded(const std::string& toml, const std::vector<std::string>& overrides = {}) {
  const WrittenFile file(toml);
  return load(file.path(), overrides, Paths::ignore);
}

TEST(Load, TakesWhatIsWrittenAndDefaultsForTheRest) {
  const RunConfig config = loaded(R"(
sft.optim.lr = 1                  # an integer does for a number
rollout = { n = 4, temperature = 0.7, top_k = 20, top_p = 0.9 }
model.path = "m"
[actor]
clip_ratio_low = 0.1
kl_loss_type = "mse"
use_kl_loss = true
[data]
train_files = ["a.jsonl", "b.jsonl"]
val_files = "c.jsonl"
[run]
seed = 9223372036854775807
)");
  EXPECT_EQ(config.sft.optim.lr, 1.0);
  EXPECT_EQ(config.rollout.n, 4);
  EXPECT_EQ(config.rollout.sampling.temperature, 0.7);
  EXPECT_EQ(config.rollout.sampling.top_k, 20);
  EXPECT_EQ(config.rollout.sampling.top_p, 0.9);
  EXPECT_EQ(config.actor.loss.clip_ratio_low, 0.1);
  EXPECT_EQ(config.actor.loss.kl_loss_type, "mse");
  EXPECT_TRUE(config.actor.loss.use_kl_loss);
  EXPECT_THAT(config.data.train_files, ElementsAre("a.jsonl", "b.jsonl"));
  EXPECT_THAT(config.data.val_files, ElementsAre("c.jsonl"));
  EXPECT_EQ(config.run.seed, 9223372036854775807u);
  EXPECT_EQ(config.actor.optim.lr, RunConfig{}.actor.optim.lr);
  EXPECT_EQ(config.trainer.total_epochs, RunConfig{}.trainer.total_epochs);
}

TEST(Load, TellsAllMistakesAtOnceInTheOrderOfTheFile) {
  EXPECT_THAT(
      mistakes_of(R"(rolout = 3
[trainer]
resum = "auto"
[rollout]
n = "8"
temprature = 0.0
top_p = 1.5
[model]
dtype = "fp61"
[actor.optimizer]
lr = true
[data]
task = "arithmetic"
shuffle = "yes"
train_batch_size = 10
max_prompt_length = 600
[actor]
ppo_mini_batch_size = 3
)",
                  {"rollout.top_k=0", "reward.name=arithmetic", "foo"}),
      ElementsAre(
          "FILE:1: unknown key rolout: did you mean the table [rollout]?",
          "FILE:3: unknown key trainer.resum: did you mean trainer.resume?",
          "FILE:5: rollout.n must be an integer, found \"8\" (a string); write it without quotes",
          "FILE:6: unknown key rollout.temprature: did you mean rollout.temperature?",
          "FILE:7: rollout.top_p must be above 0 and at most 1, found 1.5",
          "FILE:9: model.dtype must be one of bf16, fp32, found \"fp61\"; did you mean \"fp32\"?",
          "FILE:10: unknown table [actor.optimizer]: did you mean [actor.optim]?",
          "FILE:11: actor.optim.lr must be a number, found true",
          "FILE:14: data.shuffle must be true or false, found \"yes\" (a string); write it without quotes",
          "command line: rollout.top_k=0: rollout.top_k must be at least 1, or -1, found 0",
          "command line: foo: expected key=value, for example rollout.n=8",
          "FILE:16: data.max_prompt_length + data.max_response_length = 1112 is more than "
          "model.init.max_position_embeddings = 512 of the new model; set model.path to train a checkpoint",
          "FILE:18: actor.ppo_mini_batch_size = 3 must divide data.train_batch_size = 10; 0 takes the whole "
          "batch"));
}

TEST(Load, NamesFileLineAndColumnOfASyntaxErrorAndStillLooksAtOverrides) {
  const Lines lines = mistakes_of("[run]\nseed = = 1\n", {"rollout.n=0"});
  ASSERT_THAT(lines, SizeIs(2));
  EXPECT_THAT(lines[0], HasSubstr("FILE:2:8: "));
  EXPECT_EQ(lines[1], "command line: rollout.n=0: rollout.n must be from 1 to 65536, found 0");
}

TEST(Load, RefusesAKeyWrittenTwice) {
  const Lines lines = mistakes_of("[rollout]\nn = 4\nn = 5\n");
  ASSERT_THAT(lines, SizeIs(1));
  EXPECT_THAT(lines[0], HasSubstr("FILE:3:"));
}

TEST(Load, SaysWhichTypeWasExpectedAndFound) {
  const auto only = [](const std::string& toml) {
    const Lines lines = mistakes_of(std::string(kGood) + toml);
    return lines.size() == 1 ? lines[0] : testing::PrintToString(lines);
  };
  EXPECT_EQ(only("max_num_seqs = 64.0"),
            "FILE:11: rollout.max_num_seqs must be an integer, found 64.0 (a number with a fraction); write it "
            "without a "
            "fraction or exponent");
  EXPECT_EQ(only("top_p = \"1\""),
            "FILE:11: rollout.top_p must be a number, found \"1\" (a string); write it without quotes");
  EXPECT_EQ(only("top_k = [1]"), "FILE:11: rollout.top_k must be an integer, found a list");
  EXPECT_EQ(only("top_k = { a = 1 }"), "FILE:11: rollout.top_k must be an integer, found a table");
  EXPECT_EQ(only("top_k = 2026-01-01"), "FILE:11: rollout.top_k must be an integer, found a date or time");
  EXPECT_EQ(only("[run]\nname = 5"),
            "FILE:12: run.name must be a string, found 5 (an integer); put it in quotes");
  EXPECT_EQ(only("[run]\nseed = -1"), "FILE:12: run.seed must be at least 0, found -1");
  EXPECT_EQ(only("[actor.optim]\nlr = nan"), "FILE:12: actor.optim.lr must be a finite number, found nan");
  EXPECT_EQ(only("[actor.optim]\nlr = inf"), "FILE:12: actor.optim.lr must be a finite number, found inf");
  EXPECT_EQ(mistakes_of("[data]\ntrain_files = [\"a\", 3]\nmax_prompt_length = 64\nmax_response_length = "
                        "16\n[rollout]\nn=2"),
            Lines{"FILE:2: data.train_files must be a list of strings, found a list"});
  EXPECT_EQ(
      mistakes_of("run = 5\n" + std::string(kGood)),
      Lines{
          "FILE:1: run is a table, found 5 (an integer): write [run] and its keys below, or run.name=VALUE"});
  EXPECT_EQ(only("[[trainer]]\nsave_freq = 3"),
            "FILE:11: trainer is a table, found a list: write [trainer] and its keys below, or "
            "trainer.total_epochs=VALUE");
}

TEST(Load, FindsTheKeyThatWasMeant) {
  const auto hint = [](const std::string& key) {
    const Lines lines = mistakes_of(kGood, {key + "=1"});
    return lines.size() == 1 ? lines[0] : testing::PrintToString(lines);
  };
  const auto meant = [](const std::string& key, const std::string& found) {
    return "command line: " + key + "=1: unknown key " + key + ": did you mean " + found + "?";
  };
  for (const auto& [key, found] : std::vector<std::pair<std::string, std::string>>{
           {"rollout.nn", "rollout.n"},
           {"rollout.temp", "rollout.temperature"},
           {"actor.lr", "actor.optim.lr"},
           {"actor.optm.lr", "actor.optim.lr"},
           {"temperature", "rollout.temperature or rollout.val_kwargs.temperature"},
           {"trainer.seed", "run.seed"},
           {"algorithm.kl_loss_coef", "actor.kl_loss_coef"},
           {"dat.train_batch_size", "data.train_batch_size"},
           {"model.hidden_sise", "model.init.hidden_size"},
           // as verl calls them
           {"actor_rollout_ref.rollout.n", "rollout.n"},
           {"actor_rollout_ref.actor.optim.lr", "actor.optim.lr"},
           {"actor_rollout_ref.actor.ppo_max_token_len_per_gpu", "actor.ppo_max_token_len_per_rank"},
           {"actor_rollout_ref.actor.policy_loss.loss_mode", "actor.policy_loss.loss_mode"},
           {"trainer.n_gpus_per_node", "run.ranks"},
           {"trainer.experiment_name", "run.name"},
           {"reward.reward_kwargs.overlong_buffer_cfg.len", "algorithm.overlong_buffer.len"},
       })
    EXPECT_EQ(hint(key), meant(key, found));
  EXPECT_THAT(hint("rollout.zzzzzzzzzzzz"), HasSubstr("`trireme config explain rollout` lists"));
  EXPECT_THAT(hint("zzzzzzzzzzzz"), HasSubstr("docs/configuration.md"));
}

TEST(Load, ReadsAMisspeltTableAsTheOneThatWasMeant) {
  EXPECT_THAT(mistakes_of(std::string(kGood) + "[trainr]\nsave_freq = 0\n"),
              ElementsAre("FILE:11: unknown table [trainr]: did you mean [trainer]?",
                          "FILE:12: trainer.save_freq must be at least 1, or -1, found 0"));
  EXPECT_THAT(
      mistakes_of(std::string(kGood) + "[actor_rollout_ref.actor]\nppo_epochs = 0\n"),
      ElementsAre("FILE:11: verl's actor_rollout_ref falls away here: write [actor], [rollout], [model]",
                  "FILE:12: actor.ppo_epochs must be from 1 to 1000, found 0"));
}

TEST(Load, DoesNotComplainTwiceAboutOneMistake) {
  // Not also: rollout.n must be at least 2.
  EXPECT_THAT(mistakes_of("[data]\ntask=\"arithmetic\"\nmax_prompt_length=64\nmax_response_length=16\n"
                          "[reward]\nname=\"arithmetic\"\n[rollout]\nm = 8\n"),
              ElementsAre("FILE:8: unknown key rollout.m: did you mean rollout.n?"));
}

TEST(Overrides, BeatTheFileAndTheLastOneWins) {
  const RunConfig config =
      loaded(kGood, {"rollout.n=16", "rollout.n=5", "rollout.top_p=1", "actor.optim.lr=2e-5"});
  EXPECT_EQ(config.rollout.n, 5);
  EXPECT_EQ(config.rollout.sampling.top_p, 1.0);
  EXPECT_EQ(config.actor.optim.lr, 2e-5);
}

TEST(Overrides, MayCorrectAMistakeOnlyInTheFileThatIsStillTold) {
  EXPECT_THAT(mistakes_of(std::string(kGood) + "top_k = 0\n", {"rollout.top_k=5"}),
              ElementsAre("FILE:11: rollout.top_k must be at least 1, or -1, found 0"));
}

TEST(Overrides, TakeTextWithoutQuotes) {
  const RunConfig config = loaded(
      kGood, {"run.name=123", "run.output_dir=/tmp/a b=c", "placement.rollout=0-3,6", "trainer.resume=never",
              "model.tokenizer_path=\"quoted\"", "data.prompt_template=a \"{prompt}\" \\n"});
  EXPECT_EQ(config.run.name, "123");
  EXPECT_EQ(config.run.output_dir, "/tmp/a b=c");
  EXPECT_EQ(config.placement.rollout, "0-3,6");
  EXPECT_EQ(config.trainer.resume, "never");
  EXPECT_EQ(config.model.tokenizer_path, "quoted");
  EXPECT_EQ(config.data.prompt_template, "a \"{prompt}\" \\n");
  EXPECT_EQ(loaded(kGood, {"run.name="}).run.name, "");
}

TEST(Overrides, TakeAListOrOneOfIt) {
  const std::vector<std::string> files{"data.task=files", "model.path=m"};
  const auto train_files = [&](const std::string& text) {
    return loaded(kGood, {"data.task=files", "data.train_files=" + text}).data.train_files;
  };
  EXPECT_THAT(train_files("a.jsonl"), ElementsAre("a.jsonl"));
  EXPECT_THAT(train_files("\"a.jsonl\""), ElementsAre("a.jsonl"));
  EXPECT_THAT(train_files("[\"a\", \"b\"]"), ElementsAre("a", "b"));
  EXPECT_THAT(loaded(kGood, {"data.train_files="}).data.train_files, IsEmpty());
}

TEST(Overrides, ThatMakeNoSenseAreNamedAsTheyWereWritten) {
  EXPECT_THAT(
      mistakes_of(kGood, {"=3", "rollout.top_k=x", "rollout.top_p=", "data.shuffle=True", "rollout=3",
                          "data.train_files=[a", "run.log_level=inof", "rollout.max_num_seqs=1\nx=2"}),
      ElementsAre("command line: =3: expected key=value, for example rollout.n=8",
                  "command line: rollout.top_k=x: rollout.top_k must be an integer, found 'x'",
                  "command line: rollout.top_p=: rollout.top_p must be a number, found ''",
                  "command line: data.shuffle=True: data.shuffle must be true or false, found 'True'",
                  "command line: rollout=3: rollout is a table: set its keys one by one, as rollout.n=VALUE",
                  "command line: data.train_files=[a: data.train_files must be a list of strings, found '[a'",
                  "command line: run.log_level=inof: run.log_level must be one of debug, info, warn, error, "
                  "found \"inof\"; did you mean \"info\"?",
                  "command line: rollout.max_num_seqs=1\\nx=2: rollout.max_num_seqs must be an integer, "
                  "found '1\\nx=2'"));
  EXPECT_THAT(mistakes_of(kGood, {"run.name=\xff\xfe"}), SizeIs(1));  // no UTF-8: could not be written back
}

TEST(Load, KeepsWhereEachValueComesFrom) {
  const WrittenFile file(kGood);
  const LoadedConfig config = load_with_origins(file.path(), {"rollout.n=4"}, Paths::ignore);
  EXPECT_EQ(config.origins.at("data.task"), file.path() + ":3");
  EXPECT_EQ(config.origins.at("rollout.n"), "command line: rollout.n=4");
  EXPECT_EQ(config.origins.count("run.seed"), 0u);
}

TEST(Load, SaysThatTheFileIsMissingAndWhichIsNear) {
  const WrittenFile file(kGood, "quickstart.toml");
  try {
    load(file.folder() + "/quikstart.toml");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_config);
    EXPECT_EQ(error.message(), "there is no configuration file " + file.folder() +
                                   "/quikstart.toml; did you mean " + file.path() + "?");
  }
  EXPECT_THROW(load(file.folder()), Error);
}

}  // namespace
}  // namespace trireme::config
