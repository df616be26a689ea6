// `trireme import-verl` as it is typed.
#include <gmock/gmock.h>

#include "tests/launcher/commands/launch.h"

namespace trireme::commands {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ImportVerl : public LaunchTest {
 protected:
  Result trireme(std::vector<std::string> arguments) {
    start(std::move(arguments));
    return finish();
  }
};

const char* const kCommand =
    "MODEL=${MODEL:-models/tiny}\n"
    "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_files=data/gsm8k.parquet \\\n"
    "  actor_rollout_ref.model.path=$MODEL actor_rollout_ref.rollout.n=5 trainer.n_gpus_per_node=2 \\\n"
    "  actor_rollout_ref.model.lora_rank=8 actor_rollout_ref.rollout.name=vllm \"$@\"\n";

TEST_F(ImportVerl, PrintsTheTomlAndTellsTheAccountBesideIt) {
  const auto result = trireme({"import-verl", file("run.sh", kCommand)});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("[rollout]\nn = 5"));
  EXPECT_THAT(result.err, HasSubstr("7 keys: 5 mapped, 1 needless here, 1 unsupported"));
  EXPECT_THAT(result.out, Not(HasSubstr("7 keys")));
}

TEST_F(ImportVerl, WhatItWritesIsAConfiguration) {
  const std::string toml = (folder_ / "run.toml").string();
  auto result = trireme({"import-verl", file("run.sh", kCommand), "-o", toml});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("actor_rollout_ref.model.lora_rank=8 -> all weights are trained"));
  result = trireme({"config", "show", toml});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("path = \"models/tiny\""));
}

TEST_F(ImportVerl, RefusesWhatItCannotRead) {
  EXPECT_EQ(trireme({"import-verl", file("a.sh", "echo hello\n")}).status, 2);
  EXPECT_EQ(trireme({"import-verl", file("b.sh", "python3 -m verl.trainer.main_ppo a.b='c\n")}).status, 2);
  const auto sft =
      trireme({"import-verl", file("c.sh", "torchrun -m verl.trainer.fsdp_sft_trainer optim.lr=1e-5\n")});
  EXPECT_EQ(sft.status, 2);
  EXPECT_THAT(sft.err, HasSubstr("configs/gsm8k-sft-0.5b.toml"));
  EXPECT_EQ(trireme({"import-verl", (folder_ / "absent.sh").string()}).status, 1);
}

}  // namespace
}  // namespace trireme::commands
