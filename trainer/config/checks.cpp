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

using KeyNames = std::initializer_list<std::string>;

class Checker {
 public:
  explicit Checker(Written& written) : w_(written), c_(written.config) {}

  void algorithm();
  void batches();
  void critic();
  void dpo();
  void model();
  void data();
  void rollout();
  void reward();
  void reward_model();
  void sft();
  void rft();
  void placement();
  void parallel();
  void offload();

 private:
  /// A mistake in how `keys` fit together, unless one of them is in doubt; told at the first that was
  /// written.
  template <typename... Args>
  void require(bool holds, KeyNames keys, fmt::format_string<Args...> format, Args&&... args) {
    if (holds) return;
    for (const std::string& key : keys)
      if (w_.in_doubt.count(key)) return;
    const auto written =
        std::find_if(keys.begin(), keys.end(), [&](const std::string& k) { return w_.origins.count(k); });
    w_.mistakes.add(w_.where(written == keys.end() ? *keys.begin() : *written),
                    fmt::format(format, std::forward<Args>(args)...));
  }

  int64_t sequence_length() const { return c_.data.max_prompt_length + c_.data.max_response_length; }
  bool rl() const { return uses_policy_gradient(c_); }
  bool supervised() const { return c_.algorithm.name == "sft"; }

  void room(const std::string& owner, const std::string& role, int64_t tokens, int64_t cp);
  void warm_up(const optim::OptimConfig& optim, int64_t steps, const char* key, const char* steps_key);

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
  const int64_t warmup = c_.critic.critic_warmup, steps = c_.trainer.total_training_steps;
  require(warmup == 0 || needs.values, {"trainer.critic_warmup", "algorithm.adv_estimator"},
          "trainer.critic_warmup = {} waits for a critic, and algorithm.adv_estimator = \"{}\" has none; set "
          "it to 0, or the estimator to gae",
          warmup, estimator);
  require(warmup == 0 || steps == 0 || warmup <= steps,
          {"trainer.critic_warmup", "trainer.total_training_steps"},
          "trainer.critic_warmup = {} is more than trainer.total_training_steps = {}: the actor would never "
          "be updated",
          warmup, steps);

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

// The schedule's last step must lie behind its warm-up, where the number of steps is known.
void Checker::warm_up(const optim::OptimConfig& optim, int64_t steps, const char* key,
                      const char* steps_key) {
  require(steps == 0 || optim.lr_warmup_steps <= steps, {key, steps_key, "algorithm.name"},
          "{} = {} is longer than the run's {} steps ({})", key, optim.lr_warmup_steps, steps, steps_key);
}

// What is computed at one time, a sequence or a pair of them, must fit into a forward pass: `tokens` of each
// rank (a key of `owner`), on `role`'s cp ranks.
void Checker::room(const std::string& owner, const std::string& role, int64_t tokens, int64_t cp) {
  const std::string key = owner + ".ppo_max_token_len_per_rank", cp_key = role + ".parallel.cp";
  const int64_t responses = is_dpo(c_) ? 2 : 1,
                needed = c_.data.max_prompt_length + responses * c_.data.max_response_length;
  require(
      tokens * cp >= needed, {key, cp_key, "data.max_response_length", "data.max_prompt_length"},
      "{} = {}{} cannot hold one {} = {} tokens; make it {}, or share sequences out over more ranks with {} "
      "= {}",
      key, tokens, cp == 1 ? "" : fmt::format(" on {} = {} ranks", cp_key, cp),
      responses == 2 ? "pair of data.max_prompt_length + 2 * data.max_response_length"
                     : "sequence of data.max_prompt_length + data.max_response_length",
      needed, (needed + cp - 1) / cp, cp_key, (needed + tokens - 1) / tokens);
}

void Checker::rft() {
  if (c_.algorithm.name != "rft") return;
  // From the base, the schedule is that of each round's updates, whose number is not known.
  if (c_.rft.start_from == "current")
    warm_up(c_.actor.optim, c_.trainer.total_training_steps, "actor.optim.lr_warmup_steps",
            "trainer.total_training_steps");
}

void Checker::batches() {
  if (!rl()) return;
  const int64_t batch = c_.data.train_batch_size;
  const int64_t mini = c_.actor.ppo_mini_batch_size == 0 ? batch : c_.actor.ppo_mini_batch_size;
  require(mini <= batch && batch % mini == 0, {"actor.ppo_mini_batch_size", "data.train_batch_size"},
          "actor.ppo_mini_batch_size = {} must divide data.train_batch_size = {}; 0 takes the whole batch",
          mini, batch);
  room("actor", "actor", c_.actor.ppo_max_token_len_per_rank, c_.parallel.actor.cp);
  if (has_reference(c_) && c_.parallel.reference.cp < c_.parallel.actor.cp)
    room("actor", "reference", c_.actor.ppo_max_token_len_per_rank, c_.parallel.reference.cp);
  warm_up(c_.actor.optim, c_.trainer.total_training_steps, "actor.optim.lr_warmup_steps",
          "trainer.total_training_steps");
}

void Checker::critic() {
  if (w_.in_doubt.count("algorithm.adv_estimator") || !has_critic(c_)) return;
  const steps::CriticConfig critic = steps::resolved(c_.critic, c_.actor);
  const int64_t batch = c_.data.train_batch_size;
  const int64_t mini = critic.ppo_mini_batch_size == 0 ? batch : critic.ppo_mini_batch_size;
  require(c_.critic.ppo_mini_batch_size == 0 || (mini <= batch && batch % mini == 0),
          {"critic.ppo_mini_batch_size", "data.train_batch_size"},
          "critic.ppo_mini_batch_size = {} must divide data.train_batch_size = {}; 0 takes the actor's", mini,
          batch);
  room("critic", "critic", critic.ppo_max_token_len_per_rank, c_.parallel.critic.cp);
  warm_up(critic.optim, c_.trainer.total_training_steps, "critic.optim.lr_warmup_steps",
          "trainer.total_training_steps");
}

void Checker::dpo() {
  if (!is_dpo(c_)) return;
  const losses::PreferenceLossConfig& dpo = c_.algorithm.dpo;
  const bool smooths = dpo.loss_type == "sigmoid" || dpo.loss_type == "robust" || dpo.loss_type == "exo_pair";
  require(
      smooths || dpo.label_smoothing == 0, {"algorithm.dpo.label_smoothing", "algorithm.dpo.loss_type"},
      "algorithm.dpo.label_smoothing = {} means nothing to loss_type = \"{}\"; sigmoid, robust and exo_pair "
      "take it",
      dpo.label_smoothing, dpo.loss_type);
  require(
      dpo.loss_type != "exo_pair" || dpo.label_smoothing > 0,
      {"algorithm.dpo.label_smoothing", "algorithm.dpo.loss_type"},
      "algorithm.dpo.loss_type = \"exo_pair\" needs algorithm.dpo.label_smoothing above 0; 0.001 is usual");
  require(!c_.actor.loss.use_kl_loss && !c_.algorithm.use_kl_in_reward,
          {"actor.use_kl_loss", "algorithm.use_kl_in_reward", "algorithm.name"},
          "algorithm.name = \"dpo\" holds the policy to the reference by itself (algorithm.dpo.beta); leave "
          "actor.use_kl_loss and algorithm.use_kl_in_reward out");
  const int64_t mini = c_.actor.ppo_mini_batch_size;
  require(
      (mini == 0 || mini == c_.data.train_batch_size) && c_.actor.ppo_epochs == 1,
      {"actor.ppo_mini_batch_size", "actor.ppo_epochs", "algorithm.name"},
      "algorithm.name = \"dpo\" makes one update of each batch of data.train_batch_size = {} pairs; leave "
      "actor.ppo_mini_batch_size and actor.ppo_epochs out (passes over the data: trainer.total_epochs)",
      c_.data.train_batch_size);
  room("actor", "actor", c_.actor.ppo_max_token_len_per_rank, c_.parallel.actor.cp);
  if (has_reference(c_) && c_.parallel.reference.cp < c_.parallel.actor.cp)
    room("actor", "reference", c_.actor.ppo_max_token_len_per_rank, c_.parallel.reference.cp);
  require(c_.data.chosen_key != c_.data.rejected_key, {"data.chosen_key", "data.rejected_key"},
          "data.chosen_key and data.rejected_key name the same column, {}", c_.data.chosen_key);
  require(!c_.sft.warm_start || c_.data.task == "arithmetic", {"sft.warm_start", "algorithm.name"},
          "before algorithm.name = \"dpo\" on files, supervised fine-tuning is a run of its own "
          "(algorithm.name = "
          "\"sft\"): set model.path to its checkpoint");
  warm_up(c_.actor.optim, c_.trainer.total_training_steps, "actor.optim.lr_warmup_steps",
          "trainer.total_training_steps");
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
  require(!supervised() || c_.sft.max_length <= init.max_position_embeddings,
          {"sft.max_length", "model.init.max_position_embeddings"},
          "sft.max_length = {} is more than model.init.max_position_embeddings = {} of the new model",
          c_.sft.max_length, init.max_position_embeddings);
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
        std::pair{"data.chosen_key", &data.chosen_key}, std::pair{"data.rejected_key", &data.rejected_key},
        std::pair{"sft.response_key", &c_.sft.response_key},
        std::pair{"sft.messages_key", &c_.sft.messages_key}, std::pair{"sft.tools_key", &c_.sft.tools_key}})
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
      c_.reward.name != "gsm8k" || !c_.reward.function.path.empty() || !c_.reward.command.empty(),
      {"reward.name", "data.task"},
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

void Checker::reward() {
  const auto& reward = c_.reward;
  require(reward.function.path.empty() || reward.command.empty(), {"reward.function.path", "reward.command"},
          "reward.function.path and reward.command both say who judges: leave one of them out");
  const std::string& url = reward.http.url;
  require(url.empty() || (reward.function.path.empty() && reward.command.empty()),
          {"reward.http.url", "reward.function.path", "reward.command"},
          "reward.http.url and {} both say who judges: leave one of them out",
          reward.command.empty() ? "reward.function.path" : "reward.command");
  require(url.empty() || url.starts_with("http://") || url.starts_with("https://"), {"reward.http.url"},
          "reward.http.url = {} is no address: it begins with http:// or https://", quoted(url));
  for (const std::string& header : reward.http.headers)
    require(header.find(':') != std::string::npos && header.find_first_of("\r\n") == std::string::npos,
            {"reward.http.headers"}, "reward.http.headers: {} is not NAME: VALUE in one line", quoted(header));
  require(reward.command.empty() || !reward.command[0].empty(), {"reward.command"},
          "reward.command begins with an empty text: it must name a program");
  require(nlohmann::json::parse(reward.function.kwargs, nullptr, false).is_object(),
          {"reward.function.kwargs"}, "reward.function.kwargs must be a JSON object such as {}, found {}",
          R"('{"strict": true}')", quoted(reward.function.kwargs));
  const bool has_code = !reward.function.path.empty() || !reward.command.empty() || !url.empty();
  require(reward.sources.empty() || reward.name == "by_source", {"reward.sources", "reward.name"},
          "reward.sources says which rule judges which source: it needs reward.name = \"by_source\"");
  for (const std::string& entry : reward.sources) {
    const std::string rule = entry.substr(std::min(entry.rfind('=') + 1, entry.size()));
    const auto rules = rewards::rule_names();
    require(entry.find('=') != std::string::npos && entry[0] != '=' && rule != "by_source" &&
                std::find(rules.begin(), rules.end(), rule) != rules.end(),
            {"reward.sources"}, "reward.sources: {} is not SOURCE=RULE with one of {}", quoted(entry),
            fmt::join(rules, ", "));
  }
  require(reward.name != "regex" || has_code || !reward.pattern.empty(), {"reward.pattern", "reward.name"},
          "reward.name = \"regex\" needs reward.pattern: an expression whose first group is the answer");
  require(reward.format.weight == 0 || !reward.format.pattern.empty() || !reward.format.tags.empty(),
          {"reward.format.weight", "reward.format.pattern", "reward.format.tags"},
          "reward.format.weight = {} weighs a form that is not said: set reward.format.pattern or "
          "reward.format.tags",
          reward.format.weight);
  for (const std::string& tag : reward.format.tags)
    require(!tag.empty() && tag.find_first_of("<>/ ") == std::string::npos, {"reward.format.tags"},
            "reward.format.tags: {} is no element's name; write it without < and >", quoted(tag));
  require(c_.validation.n == 1 || c_.validation.temperature > 0,
          {"rollout.val_kwargs.n", "rollout.val_kwargs.temperature"},
          "rollout.val_kwargs.n = {} would ask for the same greedy response {} times: set "
          "rollout.val_kwargs.temperature above 0",
          c_.validation.n, c_.validation.n);
  require(!reward.function.name.empty(), {"reward.function.name"},
          "reward.function.name is empty: it names a function, as compute_score");
}

void Checker::reward_model() {
  const auto& model = c_.reward_model;
  const bool learns_from_rewards = rl() || c_.algorithm.name == "rft";
  require(!judges_nothing(c_) || has_reward_model(c_) || !learns_from_rewards ||
              c_.reward.format.weight != 0 || c_.reward.repetition.weight != 0 || c_.reward.cosine.weight != 0,
          {"reward.name", "reward_model.path"},
          "reward.name = \"none\" judges nothing: name the model that does in reward_model.path, or a rule");
  if (model.path.empty()) return;
  require(has_reward_model(c_), {"reward_model.path", "algorithm.name"},
          "reward_model.path: algorithm.name = \"{}\" has no responses that a reward model would judge; leave "
          "it out",
          c_.algorithm.name);
  require(!judges_nothing(c_) || c_.algorithm.filter_groups.metric != "acc" ||
              !c_.algorithm.filter_groups.enable,
          {"algorithm.filter_groups.metric", "reward.name"},
          "algorithm.filter_groups.metric = \"acc\" asks whether answers are right, and reward.name = "
          "\"none\" does not say: take \"score\"");
  require(!judges_nothing(c_) || !c_.sft.warm_start || c_.sft.stop_at_accuracy == 0,
          {"sft.stop_at_accuracy", "reward.name"},
          "sft.stop_at_accuracy waits for right answers, and reward.name = \"none\" does not know any: set "
          "sft.max_steps alone");
}

void Checker::sft() {
  const auto& sft = c_.sft;
  require(!sft.warm_start || !supervised(), {"sft.warm_start", "algorithm.name"},
          "sft.warm_start goes before another algorithm; with algorithm.name = \"sft\" the whole run is "
          "supervised, "
          "leave it out");
  require(!sft.warm_start || sft.max_steps > 0, {"sft.max_steps", "sft.warm_start"},
          "sft.warm_start needs sft.max_steps: how long it goes on at most");
  require(sft.bare_batch_size == 0 || c_.data.task == "arithmetic", {"sft.bare_batch_size", "data.task"},
          "sft.bare_batch_size = {} needs data.task = \"arithmetic\", where bare expressions come from",
          sft.bare_batch_size);
  if (sft.warm_start || supervised())
    warm_up(sft.optim, sft.max_steps, "sft.optim.lr_warmup_steps", "sft.max_steps");
}

void Checker::placement() {
  for (const auto& [key, text] : {std::pair{"placement.actor", &c_.placement.actor},
                                  std::pair{"placement.critic", &c_.placement.critic},
                                  std::pair{"placement.reference", &c_.placement.reference},
                                  std::pair{"placement.rollout", &c_.placement.rollout},
                                  std::pair{"placement.reward_model", &c_.placement.reward_model}}) {
    const RankList list = read_ranks(*text);
    require(list.wrong.empty(), {key}, "{} = \"{}\" {}", key, *text, list.wrong);
    if (!list.wrong.empty()) w_.in_doubt.insert(key);
  }
}

void Checker::parallel() {
  require(c_.parallel.rollout.pp == 1, {"rollout.parallel.pp"},
          "rollout.parallel.pp = {}: a token would go through {} ranks one after the other, each idle while "
          "the others compute; leave it 1 and share out the model with rollout.parallel.tp (the actor may "
          "have another layout)",
          c_.parallel.rollout.pp, c_.parallel.rollout.pp);
  require(c_.parallel.rollout.cp == 1, {"rollout.parallel.cp"},
          "rollout.parallel.cp = {}: a token's row is one, there is nothing to share out; leave it 1 and use "
          "rollout.parallel.tp",
          c_.parallel.rollout.cp);
  for (const auto& [role, parallel] :
       {std::pair{"actor", &c_.parallel.actor}, std::pair{"critic", &c_.parallel.critic}}) {
    const std::string stage = fmt::format("{}.parallel.zero_stage", role),
                      pp = fmt::format("{}.parallel.pp", role);
    require(
        parallel->pp == 1 || parallel->zero_stage < 3, {stage.c_str(), pp.c_str()},
        "{} = 3 does not go with {} = {}: every micro-batch would gather every layer of its stage again, and "
        "stages that wait for each other would wait for other replicas as well; pp already shares out the "
        "weights, set {} to 2 at most",
        stage, pp, parallel->pp, stage);
  }
}

void Checker::offload() {
  require(!c_.offload.activations || c_.model.enable_gradient_checkpointing,
          {"model.enable_activation_offload", "model.enable_gradient_checkpointing"},
          "model.enable_activation_offload needs model.enable_gradient_checkpointing: what is brought out is "
          "the input that each layer keeps to be computed again");
}

}  // namespace

void check_values(Written& written) {
  Checker checker(written);
  checker.algorithm();
  checker.data();
  checker.model();
  checker.batches();
  checker.critic();
  checker.dpo();
  checker.rollout();
  checker.reward();
  checker.reward_model();
  checker.sft();
  checker.rft();
  checker.placement();
  checker.parallel();
  checker.offload();
  check_steps_ahead(written);
  check_stream(written);
}

}  // namespace trireme::config
