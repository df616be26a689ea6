// verl's recorded commands as their users would bring them: imported, checked and run on two ranks, with a
// tiny model in place of theirs. What names their machines, files and sizes is replaced on the command line;
// everything else stays as it was imported.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/launcher/commands/launch.h"
#include "trainer/config/schema.h"

namespace trireme::commands {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr const char* kTinyConfig = R"({
  "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_act": "silu", "hidden_size": 32,
  "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
  "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "vocab_size": 512,
  "tie_word_embeddings": true, "initializer_range": 0.2, "torch_dtype": "bfloat16", "eos_token_id": 511})";
constexpr const char* kTokenizerConfig = R"({"eos_token": "<|im_end|>", "chat_template":
  "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"})";

class ImportedRun : public LaunchTest, public testing::WithParamInterface<std::string> {
 protected:
  std::string tiny_model() {
    const fs::path model = folder_ / "tiny";
    fs::create_directories(model);
    file("tiny/config.json", kTinyConfig);
    file("tiny/tokenizer_config.json", kTokenizerConfig);
    fs::copy_file(source_folder() + "/tests/trainer/text/goldens/small_tokenizer.json",
                  model / "tokenizer.json", fs::copy_options::overwrite_existing);
    return model;
  }
  Result trireme(std::vector<std::string> arguments) {
    start(std::move(arguments));
    return finish(std::chrono::seconds(240));
  }

  // 40 rows in verl's columns.
  const std::string data_ = "[\"" + source_folder() + "/tests/trainer/data/goldens/verl-snappy.parquet\"]";
};

// What is theirs alone, and what makes a step small.
std::vector<std::string> replacements(const std::string& model, const std::string& data,
                                      const std::string& toml) {
  std::vector<std::string> all{"model.path=" + model,
                               "model.random_weights=true",
                               "data.train_files=" + data,
                               "data.val_files=" + data,
                               "run.ranks=2",
                               "run.device=cpu",
                               "run.threads_per_rank=1",
                               "actor.parallel.tp=1",
                               "rollout.parallel.tp=1",
                               "reference.parallel.tp=1",
                               "data.train_batch_size=4",
                               "actor.ppo_mini_batch_size=1",  // fewer prompts than ranks
                               "data.max_prompt_length=1024",
                               "data.max_response_length=16",
                               "actor.ppo_max_token_len_per_rank=1100",
                               "actor.optim.lr_warmup_steps=1",
                               "data.val_max_samples=4",
                               "trainer.total_training_steps=2"};
  // Only where a command has them: these lengths hang on those above.
  for (const auto& [key, value] : std::vector<std::pair<std::string, std::string>>{
           {"rollout.max_model_len", "0"},
           {"rollout.max_num_batched_tokens", "2048"},
           {"algorithm.overlong_buffer.len", "8"},
           {"algorithm.filter_groups.max_num_gen_batches", "0"},  // random weights are hardly ever rewarded
           {"model.tokenizer_path", model},
           {"critic.model.path", model},
           {"critic.parallel.tp", "1"},
           {"actor.parallel.cp", "2"},  // of 2 ranks; commands have more
           {"reference.parallel.cp", "2"},
           {"critic.ppo_mini_batch_size", "1"},
           {"critic.ppo_max_token_len_per_rank", "1100"},
           {"critic.optim.lr_warmup_steps", "1"}})
    if (config::find_key(key) && toml.find(key.substr(key.rfind('.') + 1) + " = ") != std::string::npos)
      all.push_back(key + "=" + value);
  // A reward model would need weights (reward_model_run_test has some): a rule judges here.
  if (toml.find("[reward_model]") != std::string::npos)
    all.insert(all.end(), {"reward_model.path=\"\"", "reward.name=exact_match"});
  // These rows have sources of their own, which no rule is known for.
  if (toml.find("\"by_source\"") != std::string::npos) all.push_back("reward.sources=[\"mine=exact_match\"]");
  return all;
}

TEST_P(ImportedRun, Finishes) {
  const std::string command = source_folder() + "/tests/launcher/verl/commands/" + GetParam() + ".sh";
  const std::string toml = (folder_ / "imported.toml").string(), model = tiny_model();
  auto result = trireme({"import-verl", command, "-o", toml});
  ASSERT_EQ(result.status, 0) << result.err;

  const std::vector<std::string> changes = replacements(model, data_, read_all(toml));

  std::vector<std::string> check{"config", "check", toml};
  check.insert(check.end(), changes.begin(), changes.end());
  result = trireme(check);
  ASSERT_EQ(result.status, 0) << result.out << result.err;

  std::vector<std::string> run{"run", toml, "--run-dir", run_dir()};
  run.insert(run.end(), changes.begin(), changes.end());
  result = trireme(run);
  ASSERT_EQ(result.status, 0) << result.out << result.err << log(0) << log(1);
  EXPECT_THAT(result.out, HasSubstr("step 2/2"));
  const auto summary = nlohmann::json::parse(read_all(fs::path(run_dir()) / "summary.json"));
  EXPECT_EQ(summary.at("steps"), 2);
  EXPECT_EQ(summary.at("ranks"), 2);
  EXPECT_TRUE(fs::exists(fs::path(run_dir()) / "checkpoints" / "step_2" / "model.safetensors"));
}

std::vector<std::string> recorded_commands() {
  std::vector<std::string> names;
  for (const auto& file : fs::directory_iterator(source_folder() + "/tests/launcher/verl/commands"))
    names.push_back(file.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

INSTANTIATE_TEST_SUITE_P(Commands, ImportedRun, testing::ValuesIn(recorded_commands()), [](const auto& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
});

TEST(RecordedCommands, AreThere) {
  EXPECT_GE(recorded_commands().size(), 17u);
}

}  // namespace
}  // namespace trireme::commands
