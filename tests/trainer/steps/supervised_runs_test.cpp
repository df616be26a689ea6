// Whole runs of what learns from examples: conversations, and the right answers that a run samples itself.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "runtime/observe/metrics.h"
#include "tests/launcher/commands/launch.h"

namespace trireme::commands {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr const char* kTiny = R"({
  "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_act": "silu", "hidden_size": 32,
  "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
  "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "vocab_size": 512,
  "tie_word_embeddings": true, "initializer_range": 0.1, "torch_dtype": "bfloat16", "eos_token_id": 511})";
constexpr const char* kTokenizer = R"({"eos_token": "<|im_end|>", "chat_template":
  "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"})";

class SupervisedRuns : public LaunchTest {
 protected:
  Result train(const std::string& config, std::vector<std::string> more) {
    std::vector<std::string> arguments{"run", config, "-n", "2", "--run-dir", run_dir()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    start(std::move(arguments));
    return finish(std::chrono::seconds(120));
  }
  std::string weights(const std::string& checkpoint) const {
    return read_all(fs::path(run_dir()) / "checkpoints" / checkpoint / "model.safetensors");
  }
  std::vector<nlohmann::json> metrics() const {
    std::vector<nlohmann::json> all;
    std::istringstream lines(read_all(fs::path(run_dir()) / "metrics.jsonl"));
    for (std::string line; std::getline(lines, line);)
      all.push_back(nlohmann::json::parse(line).at("metrics"));
    return all;
  }
  void expect_documented() const {
    for (const auto& step : metrics())
      for (const auto& [name, value] : step.items()) EXPECT_TRUE(observe::is_documented(name)) << name;
  }
  std::string tiny_model() {
    fs::create_directories(folder_ / "tiny");
    file("tiny/config.json", kTiny);
    file("tiny/tokenizer_config.json", kTokenizer);
    fs::copy_file(source_folder() + "/tests/trainer/text/goldens/small_tokenizer.json",
                  folder_ / "tiny" / "tokenizer.json", fs::copy_options::overwrite_existing);
    return folder_ / "tiny";
  }
  std::string conversations(int count) {
    std::string rows;
    for (int i = 0; i < count; ++i)
      rows += R"({"messages": [{"role": "user", "content": "say )" + std::to_string(i % 7) +
              R"("}, {"role": "assistant", "content": "the )" + std::to_string(i % 7) +
              R"("}, {"role": "user", "content": "again"}, {"role": "assistant", "content": "the )" +
              std::to_string(i % 7) + " and more\"}]}\n";
    return file("chat.jsonl", rows);
  }
  std::vector<std::string> sft() {
    return {"model.path=" + tiny_model(), "model.random_weights=true",
            "data.train_files=[\"" + conversations(40) + "\"]", "run.seed=3", "run.threads_per_rank=1"};
  }
  std::string sft_config() {
    return file("sft.toml", R"([model]
dtype = "fp32"
[data]
val_fraction = 0.2
[algorithm]
name = "sft"
[sft]
train_batch_size = 5
max_length = 64
[sft.optim]
lr = 1e-2
[trainer]
total_epochs = 4
test_freq = 8
save_freq = 10
)");
  }
};

TEST_F(SupervisedRuns, ConversationsAreLearnedAndMeasuredByTheirLoss) {
  const auto result = train(sft_config(), sft());
  ASSERT_EQ(result.status, 0) << result.out << result.err << log(0);
  EXPECT_THAT(result.out, HasSubstr("on 8 held-out examples"));
  const auto summary = nlohmann::json::parse(read_all(fs::path(run_dir()) / "summary.json"));
  EXPECT_EQ(summary.at("steps"), 4 * 32 / 5);
  EXPECT_GT(summary.at("val_loss_before").get<double>(), 3.0);
  EXPECT_LT(summary.at("val_loss_after").get<double>(), 1.0);
  EXPECT_FALSE(summary.contains("eval_after"));  // nothing says what is right
  int evaluations = 0;
  for (const auto& step : metrics()) evaluations += step.contains("val/loss");
  EXPECT_EQ(evaluations, 1 + 25 / 8 + 1);
  expect_documented();
}

TEST_F(SupervisedRuns, AConversationRunGoesOnFromACheckpointWithTheSameBits) {
  ASSERT_EQ(train(sft_config(), sft()).status, 0);
  const std::string straight = weights("step_25");
  ASSERT_FALSE(straight.empty());
  fs::remove_all(fs::path(run_dir()) / "checkpoints" / "step_25");
  const auto resumed = train(sft_config(), sft());
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_THAT(resumed.out, HasSubstr("step_20 (sft step 20)"));
  EXPECT_TRUE(weights("step_25") == straight);
}

TEST_F(SupervisedRuns, MistakesInConversationsAreTold) {
  auto settings = sft();
  settings.push_back("sft.max_length=20");
  auto result = train(sft_config(), settings);
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("chat.jsonl:1: the example has"));
  EXPECT_THAT(result.err, HasSubstr("sft.max_length is 20"));
  fs::remove_all(run_dir());
  settings.back() = "sft.truncation=right";
  file("tiny/tokenizer_config.json", R"({"eos_token": "<|im_end|>", "chat_template":
    "{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}<think>{% endif %}"})");
  settings[0] = "model.path=" + (folder_ / "tiny").string();
  result = train(sft_config(), settings);
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("cannot be told from the rest"));
}

class RftRuns : public SupervisedRuns {
 protected:
  // The quickstart's warm start, cut short, and a few rounds.
  static std::vector<std::string> rft(std::vector<std::string> more = {}) {
    std::vector<std::string> all{"algorithm.name=rft",
                                 "sft.max_steps=40",
                                 "sft.optim.lr_warmup_steps=2",
                                 "sft.stop_at_accuracy=0",
                                 "data.arithmetic.num_val=16",
                                 "data.arithmetic.max_operand=12",  // few pairs: some are soon right
                                 "data.arithmetic.held_out_fraction=0.3",
                                 "trainer.total_training_steps=4",
                                 "actor.optim.lr_warmup_steps=2",
                                 "trainer.save_freq=2",
                                 "trainer.test_freq=3",
                                 "data.train_batch_size=16",
                                 "rollout.n=8",
                                 "rft.mini_batch_size=8"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
};

TEST_F(RftRuns, AResumedRunEndsInTheSameBits) {
  for (const auto& more : std::vector<std::vector<std::string>>{
           {}, {"rft.accumulate=true", "rft.start_from=base", "rft.epochs=2"}}) {
    fs::remove_all(run_dir());
    const auto result = train(configuration(), rft(more));
    ASSERT_EQ(result.status, 0) << result.out << result.err;
    EXPECT_THAT(result.out, HasSubstr("step 4/4  reward "));
    double kept = 0;
    for (const auto& step : metrics()) kept += step.value("rft/kept", 0.0);
    EXPECT_GT(kept, 0);
    expect_documented();
    const std::string straight = weights("step_4");
    ASSERT_FALSE(straight.empty());
    EXPECT_EQ(fs::exists(fs::path(run_dir()) / "checkpoints/step_2/trainer/kept_samples.jsonl"),
              !more.empty());
    fs::remove_all(fs::path(run_dir()) / "checkpoints" / "step_4");
    const auto resumed = train(configuration(), rft(more));
    ASSERT_EQ(resumed.status, 0) << resumed.err;
    EXPECT_THAT(resumed.out, HasSubstr("step_2 (rft step 2)"));
    EXPECT_TRUE(weights("step_4") == straight);
  }
}

}  // namespace
}  // namespace trireme::commands
