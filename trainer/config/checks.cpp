#include "trainer/config/checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <utility>

#include "trainer/algorithms/estimator_config.h"
#include "trainer/config/rank_list.h"
#include "trainer/config/schema.h"

namespace trireme::config {
namespace {

using KeyNames = std::initializer_list<const char*>;

class Checker {
 public:
  explicit Checker(Written& written) : w_(written), c_(written.config) {}

  void algorithm();
  void batches();
  void model();
  void data();
  void rollout();
  void sft();
  void placement();

 private:
  /// A mistake in how `keys` fit together, unless one of them is in doubt; told at the first that was
  /// written.
  template <typename... Args>
  void require(bool holds, KeyNames keys, fmt::format_string<Args...> format, Args&&... args) {
    if (holds) return;
    for (const char* key : keys)
      if (w_.in_doubt.count(key)) return;
    const auto written =
        std::find_if(keys.begin(), keys.end(), [&](const char* k) { return w_.origins.count(k); });
    w_.mistakes.add(w_.where(written == keys.end() ? *keys.begin() : *written),
                    fmt::format(format, std::forward<Args>(args)...));
  }

  int64_t sequence_length() const { return c_.data.max_prompt_length + c_.data.max_response_length; }
  bool rl() const { return c_.algorithm.name != "sft"; }

  void warm_up(const optim::OptimConfig& optim, int64_t updates, const char* key, const char* steps_key);

  Written& w_;
  const RunConfig& c_;
};

void Checker::algorithm() {
  if (!rl()) return;
  const algorithms::AlgorithmConfig& algorithm = c_.algorithm;
  const std::string& estimator = algorithm.adv_estimator;
  require(algorithm.name != "grpo" || estimator == "grpo", {"algorithm.adv_estimator", "algorithm.name"},
          "algorithm.name = \"grpo\" does not go with algorithm.adv_estimator = \"{}\"; write "
          "algorithm.name = \"rl\"",
          estimator);
  const algorithms::EstimatorNeeds& needs = algorithms::needs_of(estimator);
  require(
      c_.rollout.n >= needs.least_samples, {"rollout.n", "algorithm.adv_estimator"},
      "rollout.n must be at least {} for algorithm.adv_estimator = \"{}\", found {}: a response is compared "
      "with the others of its prompt (5 to 16 are usual)",
      needs.least_samples, estimator, c_.rollout.n);
  require(
      !needs.values, {"algorithm.adv_estimator"},
      "algorithm.adv_estimator = \"{}\" needs a critic, which this version cannot train; of the estimators "
      "without one, reinforce_plus_plus comes nearest",
      estimator);

  const algorithms::FilterGroups& filter = algorithm.filter_groups;
  require(!filter.enable || c_.rollout.n >= 2, {"algorithm.filter_groups.enable", "rollout.n"},
          "algorithm.filter_groups keeps prompts whose responses differ, and rollout.n = {}", c_.rollout.n);
  require(
      !filter.enable || !algorithm.use_kl_in_reward || filter.metric != "seq_final_reward",
      {"algorithm.filter_groups.metric", "algorithm.use_kl_in_reward"},
      "with algorithm.use_kl_in_reward nearly all rewards differ, so that algorithm.filter_groups.metric = "
      "\"seq_final_reward\" would keep every prompt; take acc or score");
  const algorithms::OverlongBuffer& buffer = algorithm.overlong_buffer;
  require(!buffer.enable || (buffer.len > 0 && buffer.len <= c_.data.max_response_length),
          {"algorithm.overlong_buffer.len", "algorithm.overlong_buffer.enable", "data.max_response_length"},
          "algorithm.overlong_buffer.len = {} must be between 1 and data.max_response_length = {}",
          buffer.len, c_.data.max_response_length);

  const algorithms::RolloutCorrection& correction = algorithm.rollout_correction;
  const char* const table = "algorithm.rollout_correction";
  require(
      !correction.bypass_mode || !correction.is_on(),
      {"algorithm.rollout_correction.bypass_mode", "algorithm.rollout_correction.rollout_is",
       "algorithm.rollout_correction.rollout_rs"},
      "{0}.bypass_mode takes rollout's policy for the old one, so that {0}.rollout_is and rollout_rs have "
      "nothing to correct; leave one out",
      table);
  require(correction.rollout_is_threshold_low < correction.rollout_is_threshold,
          {"algorithm.rollout_correction.rollout_is_threshold_low",
           "algorithm.rollout_correction.rollout_is_threshold"},
          "{0}.rollout_is_threshold_low = {1} must be below {0}.rollout_is_threshold = {2}", table,
          correction.rollout_is_threshold_low, correction.rollout_is_threshold);
  const losses::PolicyLossConfig& loss = c_.actor.loss;
  require(loss.clip_cov_lb < loss.clip_cov_ub,
          {"actor.policy_loss.clip_cov_lb", "actor.policy_loss.clip_cov_ub"},
          "actor.policy_loss.clip_cov_lb = {} must be below actor.policy_loss.clip_cov_ub = {}",
          loss.clip_cov_lb, loss.clip_cov_ub);
}

// The schedule's last update must lie behind its warm-up, where the number of updates is known.
void Checker::warm_up(const optim::OptimConfig& optim, int64_t updates, const char* key,
                      const char* steps_key) {
  require(updates == 0 || optim.lr_warmup_steps <= updates, {key, steps_key, "algorithm.name"},
          "{} = {} is longer than the run's {} updates ({})", key, optim.lr_warmup_steps, updates, steps_key);
}

void Checker::batches() {
  if (!rl()) return;
  const int64_t batch = c_.data.train_batch_size;
  const int64_t mini = c_.actor.ppo_mini_batch_size == 0 ? batch : c_.actor.ppo_mini_batch_size;
  require(mini <= batch && batch % mini == 0, {"actor.ppo_mini_batch_size", "data.train_batch_size"},
          "actor.ppo_mini_batch_size = {} must divide data.train_batch_size = {}; 0 takes the whole batch",
          mini, batch);
  require(c_.actor.ppo_max_token_len_per_rank >= sequence_length(),
          {"actor.ppo_max_token_len_per_rank", "data.max_response_length", "data.max_prompt_length"},
          "actor.ppo_max_token_len_per_rank = {} cannot hold one sequence of data.max_prompt_length + "
          "data.max_response_length = {} tokens",
          c_.actor.ppo_max_token_len_per_rank, sequence_length());
  if (mini <= batch)
    warm_up(c_.actor.optim, c_.trainer.total_training_steps * (batch / mini) * c_.actor.ppo_epochs,
            "actor.optim.lr_warmup_steps", "trainer.total_training_steps");
}

void Checker::model() {
  if (!c_.model.path.empty() || w_.in_doubt.count("model.path")) return;
  require(!c_.model.random_weights, {"model.random_weights", "model.path"},
          "model.random_weights takes the shape from model.path, which is empty; leave it out to get the "
          "model of "
          "[model.init]");
  const models::RandomModelConfig& init = c_.model.init;
  const bool even_heads = init.hidden_size % init.num_attention_heads == 0;
  require(even_heads, {"model.init.num_attention_heads", "model.init.hidden_size"},
          "model.init.num_attention_heads = {} must divide model.init.hidden_size = {}",
          init.num_attention_heads, init.hidden_size);
  require(!even_heads || init.hidden_size / init.num_attention_heads % 2 == 0,
          {"model.init.num_attention_heads", "model.init.hidden_size"},
          "heads of model.init.hidden_size / model.init.num_attention_heads = {} are of odd size, which the "
          "rotary "
          "embedding cannot turn",
          init.hidden_size / init.num_attention_heads);
  require(init.num_attention_heads % init.num_key_value_heads == 0,
          {"model.init.num_key_value_heads", "model.init.num_attention_heads"},
          "model.init.num_key_value_heads = {} must divide model.init.num_attention_heads = {}",
          init.num_key_value_heads, init.num_attention_heads);
  require(sequence_length() <= init.max_position_embeddings,
          {"model.init.max_position_embeddings", "data.max_response_length", "data.max_prompt_length"},
          "data.max_prompt_length + data.max_response_length = {} is more than "
          "model.init.max_position_embeddings = {} of the new model; set model.path to train a checkpoint",
          sequence_length(), init.max_position_embeddings);
}

void Checker::data() {
  const auto& data = c_.data;
  const bool files = data.task == "files";
  require(
      !files || !data.train_files.empty(), {"data.train_files", "data.task"},
      "data.train_files names no file: set it, for example data.train_files=data/gsm8k/train.jsonl, or set "
      "data.task = \"arithmetic\"");
  require(data.prompt_template.find("{prompt}") != std::string::npos, {"data.prompt_template"},
          "data.prompt_template must contain {{prompt}}, the place where the prompt goes");
  require(
      nlohmann::json::parse(data.chat_template_kwargs, nullptr, /*allow_exceptions=*/false).is_object(),
      {"data.chat_template_kwargs"},
      "data.chat_template_kwargs must be a JSON object in quotes, as in '{{\"enable_thinking\": false}}'; "
      "found {}",
      quoted(data.chat_template_kwargs));
  for (const auto& [key, text] :
       {std::pair{"data.prompt_key", &data.prompt_key}, std::pair{"data.answer_key", &data.answer_key},
        std::pair{"sft.response_key", &c_.sft.response_key}})
    require(!text->empty(), {key}, "{} is empty: it names a column", key);
  if (files) return;
  require(data.train_files.empty(), {"data.train_files", "data.task"},
          "data.train_files are not read where data.task = \"arithmetic\"; set data.task = \"files\"");
  require(data.val_files.empty(), {"data.val_files", "data.task"},
          "data.val_files are not read where data.task = \"arithmetic\"; set data.task = \"files\"");
  require(data.arithmetic.min_operand < data.arithmetic.max_operand,
          {"data.arithmetic.min_operand", "data.arithmetic.max_operand"},
          "data.arithmetic.min_operand = {} must be below data.arithmetic.max_operand = {}",
          data.arithmetic.min_operand, data.arithmetic.max_operand);
  require(
      c_.reward.name != "gsm8k", {"reward.name", "data.task"},
      "reward.name = \"gsm8k\" finds no answer in responses of data.task = \"arithmetic\"; set reward.name = "
      "\"arithmetic\"");
}

void Checker::rollout() {
  const auto& rollout = c_.rollout;
  require(
      rollout.max_model_len == 0 || rollout.max_model_len > c_.data.max_prompt_length,
      {"rollout.max_model_len", "data.max_prompt_length"},
      "rollout.max_model_len = {} leaves no room for a response to a prompt of data.max_prompt_length = {} "
      "tokens; 0 makes room for both by itself",
      rollout.max_model_len, c_.data.max_prompt_length);
  const int64_t longest = max_model_len(c_);
  require(rollout.kv_cache_tokens == 0 || rollout.kv_cache_tokens >= longest,
          {"rollout.kv_cache_tokens", "rollout.max_model_len", "data.max_response_length",
           "data.max_prompt_length"},
          "rollout.kv_cache_tokens = {} cannot hold one sequence of {} tokens (rollout.max_model_len, or "
          "data.max_prompt_length + data.max_response_length); 0 sizes the cache by itself",
          rollout.kv_cache_tokens, longest);
  const auto& stop = rollout.sampling.stop;
  require(std::none_of(stop.begin(), stop.end(), [](const std::string& text) { return text.empty(); }),
          {"rollout.stop"}, "rollout.stop holds an empty text, which would end every response at once");
}

void Checker::sft() {
  const auto& sft = c_.sft;
  require(!sft.warm_start || rl(), {"sft.warm_start", "algorithm.name"},
          "sft.warm_start goes before another algorithm; with algorithm.name = \"sft\" the whole run is "
          "supervised, "
          "leave it out");
  require(!sft.warm_start || sft.max_steps > 0, {"sft.max_steps", "sft.warm_start"},
          "sft.warm_start needs sft.max_steps: how long it goes on at most");
  require(sft.bare_batch_size == 0 || c_.data.task == "arithmetic", {"sft.bare_batch_size", "data.task"},
          "sft.bare_batch_size = {} needs data.task = \"arithmetic\", where bare expressions come from",
          sft.bare_batch_size);
  if (sft.warm_start || !rl())
    warm_up(sft.optim, sft.max_steps, "sft.optim.lr_warmup_steps", "sft.max_steps");
}

void Checker::placement() {
  for (const auto& [key, text] : {std::pair{"placement.actor", &c_.placement.actor},
                                  std::pair{"placement.reference", &c_.placement.reference},
                                  std::pair{"placement.rollout", &c_.placement.rollout}}) {
    const RankList list = read_ranks(*text);
    require(list.wrong.empty(), {key}, "{} = \"{}\" {}", key, *text, list.wrong);
    if (!list.wrong.empty()) w_.in_doubt.insert(key);
  }
}

}  // namespace

void check_values(Written& written) {
  Checker checker(written);
  checker.algorithm();
  checker.data();
  checker.model();
  checker.batches();
  checker.rollout();
  checker.sft();
  checker.placement();
}

}  // namespace trireme::config
