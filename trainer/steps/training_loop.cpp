#include "trainer/steps/training_loop.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string_view>

#include "runtime/base/log.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/observe/step_line.h"
#include "trainer/data/order.h"
#include "trainer/data/prompt_tokens.h"
#include "trainer/evaluation/evaluate.h"
#include "trainer/models/instruction_set.h"
#include "trainer/steps/dpo_step.h"
#include "trainer/steps/online_step.h"
#include "trainer/steps/reward_model.h"
#include "trainer/weights/hf_checkpoint.h"
#include "trainer/weights/weight_files.h"

namespace trireme::steps {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

namespace {

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// The steps that are done, and those of the problems that are left: batches may have been larger before.
int64_t steps_of_epochs(int64_t epochs, const RunState& state, int64_t batch_size) {
  const int64_t left = std::max<int64_t>(0, epochs * state.num_problems - state.taken);
  return std::max<int64_t>(1, state.step + left / batch_size);
}

// Of each stage since the last time, on the rank that used most. Collective.
std::map<std::string, int64_t> most_over_ranks(memory::StageMemory* measured, comm::Communicator& world) {
  std::string lines;
  if (measured)
    for (const auto& [stage, bytes] : measured->take()) lines += fmt::format("{} {}\n", bytes, stage);
  std::map<std::string, int64_t> most;
  for (const std::string& of_rank : world.all_gather_strings(lines)) {
    std::istringstream text(of_rank);
    std::string stage;
    for (int64_t bytes = 0; text >> bytes >> stage;) most[stage] = std::max(most[stage], bytes);
  }
  return most;
}

bool draws_weights(const models::ModelConfig& model) {
  return model.path.empty() || model.random_weights;
}

}  // namespace

TrainingLoop::TrainingLoop(StepContext& context, LoopConfig config, plan::RankPage& page,
                           const std::atomic<bool>& stop)
    : context_(context), config_(std::move(config)), page_(page), stop_(stop) {
  state_.seed = context.seed;
  state_.num_problems = static_cast<int64_t>(context.problems.train.size());
  state_.fingerprint = data::fingerprint(context.problems.train);
  if (config_.algorithm.name == "sft")
    sft_ = std::make_unique<SftStep>(context_, config_.data, config_.sft,
                                     config_.actor.ppo_max_token_len_per_rank);
  if (config_.algorithm.name == "rft")
    rft_ = std::make_unique<RftStep>(context_, config_.data, config_.rollout, config_.rft, config_.actor,
                                     [this] {
                                       load_base();
                                       publish_actor(context_.models);
                                       make_optimizer(config_.actor.optim);
                                     });
  if (context.models.device.is_cpu()) state_.kernels = models::name_of(models::instruction_set());
}

TrainingLoop::~TrainingLoop() = default;

ExitStatus TrainingLoop::run() {
  const auto begin = Clock::now();
  context_.stages.run("setup", [&] {
    start();
    for (sharding::ModelMemory* memory : {&context_.models.actor_memory, &context_.models.critic_memory,
                                          &context_.models.reference_memory})
      memory->rest();
    if (!writes()) return;
    sinks_.push_back(observe::jsonl_sink((fs::path(config_.run_dir) / "metrics.jsonl").string()));
    sinks_.push_back(observe::tensorboard_sink((fs::path(config_.run_dir) / "tensorboard").string()));
  });
  if (config_.trainer.val_before_train && !state_.results.contains("eval_before") &&
      !state_.results.contains("eval_before_reward") &&
      !state_.results.contains("val_loss_before"))
    record_evaluation("before", "before");
  const bool whole = (config_.algorithm.name == "sft" || warm_start()) && main_phase();
  state_.results["seconds_total"] += seconds_since(begin);
  if (!whole) return ExitStatus::checkpointed;
  context_.stages.run("summary", [&] { write_summary(); });
  return ExitStatus::ok;
}

// The weights to begin with: the model's folder's, or random numbers from the seed; then, where this run has
// a checkpoint, all that it holds.
void TrainingLoop::start() {
  RoleModels& models = context_.models;
  const bool random = draws_weights(config_.model);
  const double std = config_.model.init.embedding_std;
  if (models.actor_parameters) load_base();
  {
    const auto present = models.reference_memory.masters(/*change=*/true);
    for (models::ParameterSet* parameters :
         {models.reference_parameters.get(), models.rollout_parameters.get()}) {
      if (!parameters) continue;
      if (random)
        parameters->initialize(context_.seed, models.shape, std);
      else
        weights::load(config_.model.path, models.shape, *parameters);
    }
    refresh_reference(models);
  }
  if (models.rollout_decoder) models.rollout_decoder->refresh();
  publish_actor(models);

  const auto folder = checkpoint_to_resume();
  state_.phase = config_.algorithm.name == "sft" || config_.sft.warm_start ? "sft" : config_.algorithm.name;
  const RunState fresh = state_;
  if (folder) {
    state_ = read_state(*folder, context_.seed);
    require_same_data(*folder, state_, fresh);
    if (!state_.kernels.empty() && !fresh.kernels.empty() && state_.kernels != fresh.kernels)
      print(fmt::format(
          "note: {} was computed with {} kernels, this run has {}: it goes on as well, but not with the "
          "same bits (TRIREME_CPU_KERNELS={} gives those, where the machines have it)",
          *folder, state_.kernels, fresh.kernels, state_.kernels));
    state_.kernels = fresh.kernels;
  }
  make_optimizer(state_.phase == "sft" ? config_.sft.optim : config_.actor.optim);
  if (state_.phase != "sft") begin_algorithm();
  if (!folder) return begin_critic(draws_weights(config_.model) ? "" : config_.model.path);
  restore(*folder, state_, models, context_.session);
  if (!state_.critic_updates) begin_critic(masters_of(*folder));
  if (!state_.reference.empty()) {
    after_sft_ = (fs::path(*folder).parent_path() / state_.reference).string();
    load_reference(after_sft_, models);
  }
  metric_step_ = static_cast<int64_t>(state_.results["metric_step"]);
  print(fmt::format("resuming from {} ({} step {})", *folder, state_.phase, state_.step));
}

// The actor's masters as the algorithm began with them. Local.
void TrainingLoop::load_base() {
  if (!after_sft_.empty())
    load_masters(masters_of(after_sft_), context_.models);
  else if (draws_weights(config_.model))
    initialize_actor(context_.seed, config_.model.init.embedding_std, context_.models);
  else
    load_masters(config_.model.path, context_.models);
}

// A critic that has not learned yet begins with its own checkpoint, or with the weights that the actor begins
// its phase with: those of `actor_folder`, or random ones where that is empty, or
// model.random_weights asks for them. A value head that neither has
// is drawn from the seed.
void TrainingLoop::begin_critic(const std::string& actor_folder) {
  RoleModels& models = context_.models;
  if (!models.critic_shape) return;
  const bool own = !config_.critic.path.empty();
  const std::string folder = !own ? actor_folder : config_.model.random_weights ? "" : config_.critic.path;
  if (models.critic_parameters) {
    const auto present = models.critic_memory.masters(/*change=*/true);
    if (folder.empty()) {
      models.critic_parameters->initialize(context_.seed, config_.model.init.embedding_std);
    } else {
      models.critic_parameters->initialize_value_head(context_.seed);
      load_critic(folder, models);
    }
    publish_critic(models);
  }
  if (!folder.empty() && writes())
    print(fmt::format("the critic begins with {}{}", folder,
                      weights::WeightFiles(folder, *models.critic_shape).has("score.weight")
                          ? ""
                          : " and a value head from run.seed"));
}

std::optional<std::string> TrainingLoop::checkpoint_to_resume() const {
  if (config_.trainer.resume == "never") return std::nullopt;
  if (config_.trainer.resume != "auto") return config_.trainer.resume;
  const auto checkpoints = fs::path(config_.run_dir) / "checkpoints";
  if (auto newest = checkpoint::latest(checkpoints.string())) return newest;
  const auto after_sft = checkpoints / "sft";
  if (fs::exists(after_sft / "manifest.json")) return after_sft.string();
  return std::nullopt;
}

// The reference is the model that the algorithm begins with.
void TrainingLoop::begin_algorithm() {
  if (config_.algorithm.name == "dpo")
    dpo_ = std::make_unique<DpoStep>(context_, config_.data, config_.algorithm.dpo, config_.actor);
}

void TrainingLoop::make_optimizer(const optim::OptimConfig& config) {
  if (context_.models.actor_parameters)
    context_.models.optimizer = std::make_unique<optim::AdamW>(
        *context_.models.actor_parameters, config, context_.models.place_of(context_.models.offload.actor));
}

// SFT before the algorithm, until the model answers well enough to be rewarded now and then.
bool TrainingLoop::warm_start() {
  if (!config_.sft.warm_start || state_.phase != "sft") return true;
  SftStep sft(context_, config_.data, config_.sft, config_.actor.ppo_max_token_len_per_rank);
  // Training problems, so that the held-out ones stay unseen by every decision.
  std::vector<data::Problem> watched;
  const auto& train = context_.problems.train;
  const int64_t samples =
      std::min<int64_t>(config_.sft.stop_check_samples, static_cast<int64_t>(train.size()));
  for (const int64_t index :
       data::batch_indices(static_cast<int64_t>(train.size()), samples, 0, context_.seed ^ 0x77a7c4ULL, true))
    watched.push_back(train[static_cast<size_t>(index)]);
  Phase phase;
  phase.name = "sft";
  phase.total_steps = config_.sft.max_steps;
  phase.step = [&](int64_t step, int64_t total) { return sft.run(step, total, state_.taken); };
  phase.batch_size = config_.sft.train_batch_size;
  phase.finished = [&](int64_t done) {
    if (config_.sft.stop_at_accuracy <= 0 || done < config_.sft.stop_check_from ||
        done % config_.sft.stop_check_freq != 0)
      return false;
    const double accuracy = evaluate("sft/train_accuracy", watched, false);
    evaluation_["sft/train_accuracy"] = accuracy;
    if (accuracy < config_.sft.stop_at_accuracy) return false;
    print(
        fmt::format("sft stops at step {}: {:.1f} % of {} training problems are answered right "
                    "(sft.stop_at_accuracy = {})",
                    done, 100 * accuracy, watched.size(), config_.sft.stop_at_accuracy));
    return true;
  };
  if (!run_phase(phase)) return false;

  context_.stages.run("reference", [&] { copy_actor_to_reference(context_.models); });
  begin_algorithm();
  record_evaluation("after_sft", "after sft");
  state_.phase = config_.algorithm.name;
  state_.step = 0;
  state_.taken = 0;
  state_.reference = "sft";
  after_sft_ = (fs::path(config_.run_dir) / "checkpoints" / state_.reference).string();
  context_.stages.run("optimizer", [&] { make_optimizer(config_.actor.optim); });
  save_checkpoint("sft");
  context_.stages.run("critic", [&] { begin_critic(masters_of(after_sft_)); });
  return true;
}

bool TrainingLoop::main_phase() {
  const auto& trainer = config_.trainer;
  Phase phase;
  phase.name = config_.algorithm.name;
  phase.save_freq = trainer.save_freq;
  phase.test_freq = trainer.test_freq;
  if (sft_) {
    phase.step = [&](int64_t step, int64_t total) { return sft_->run(step, total, state_.taken); };
    phase.batch_size = config_.sft.train_batch_size;
    phase.total_steps = config_.sft.max_steps > 0
                            ? config_.sft.max_steps
                            : steps_of_epochs(trainer.total_epochs, state_, config_.sft.train_batch_size);
  } else if (rft_) {
    if (config_.rft.accumulate)
      rft_->set_kept(
          KeptSamples::from_lines(state_.kept_samples, state_.num_problems, "the checkpoint's kept samples"));
    phase.step = [&](int64_t step, int64_t total) { return rft_->run(step, total, state_.taken); };
    phase.batch_size = config_.data.train_batch_size;
    phase.total_steps = trainer.total_training_steps > 0
                            ? trainer.total_training_steps
                            : steps_of_epochs(trainer.total_epochs, state_, config_.data.train_batch_size);
  } else if (dpo_) {
    phase.step = [&](int64_t step, int64_t total) { return dpo_->run(step, total, state_.taken); };
    phase.batch_size = config_.data.train_batch_size;
    phase.total_steps = trainer.total_training_steps > 0
                            ? trainer.total_training_steps
                            : steps_of_epochs(trainer.total_epochs, state_, config_.data.train_batch_size);
  } else {
    online_ = std::make_unique<OnlineStep>(context_, config_.data, config_.rollout, config_.algorithm,
                                           config_.actor, config_.critic);
    begin_online();
    phase.step = [&](int64_t step, int64_t total) {
      observe::Metrics metrics = online_->run(step, total, state_.taken);
      phase.batch_size = online_->problems_taken();
      if (config_.algorithm.use_kl_in_reward && config_.algorithm.kl_ctrl.type == "adaptive")
        state_.kl_coefficient = online_->kl_coefficient();
      return metrics;
    };
    phase.batch_size = config_.data.train_batch_size;
    phase.total_steps = trainer.total_training_steps > 0
                            ? trainer.total_training_steps
                            : steps_of_epochs(trainer.total_epochs, state_, config_.data.train_batch_size);
  }
  if (!run_phase(phase)) return false;
  record_evaluation("after", "after");
  save_checkpoint(fmt::format("step_{}", state_.step));
  return true;
}

// What a checkpoint knows of the steps before.
void TrainingLoop::begin_online() {
  const int64_t ahead = config_.rollout.steps_ahead;
  if (online_->recomputes_old_log_probs())
    print(fmt::format("the actor computes old log-probabilities again (timing_s/old_log_prob): {}",
                      ahead > 0 ? fmt::format("rollout is ahead by {} step{}", ahead, ahead == 1 ? "" : "s")
                                : context_.models.inexact_because));
  if (config_.rollout.stream) {
    const std::string late = online_->learns_late_because();
    print(late.empty() ? fmt::format("training learns from each mini-batch of {} prompts as rollout finishes it",
                                     config_.actor.ppo_mini_batch_size)
                       : fmt::format("training reads each mini-batch of {} prompts as rollout finishes it, and "
                                     "learns when the batch is whole: {}",
                                     config_.actor.ppo_mini_batch_size, late));
  }
  if (state_.kl_coefficient) online_->set_kl_coefficient(*state_.kl_coefficient);
  const size_t made = state_.batches.size();
  online_->set_batches(std::move(state_.batches));
  state_.batches.clear();
  if (const size_t left = online_->batches().size(); left < made)
    print(fmt::format("{} of the {} batches in the checkpoint are generated again: they are older than "
                      "rollout.steps_ahead = {} allows",
                      made - left, made, ahead));
}

bool TrainingLoop::run_phase(const Phase& phase) {
  page_.set_phase(phase.name, phase.total_steps);
  page_.set_step(state_.step);
  while (state_.step < phase.total_steps) {
    const observe::Metrics metrics = run_step(phase, state_.step);
    ++state_.step;
    state_.taken += phase.batch_size;
    ++metric_step_;
    page_.set_step(state_.step);
    if (phase.test_freq > 0 && state_.step % phase.test_freq == 0 && state_.step < phase.total_steps)
      evaluate_held_out(fmt::format("step {}", state_.step));
    const bool done = phase.finished && phase.finished(state_.step);
    observe::Metrics all = metrics;
    all.merge(evaluation_);
    evaluation_.clear();
    for (auto& sink : sinks_) sink->write(metric_step_, all);
    if (asked_to_stop()) {
      print("asked to stop: writing a checkpoint");
      save_checkpoint(
          fmt::format("step_{}", phase.name == "sft" && config_.algorithm.name != "sft" ? 0 : state_.step));
      return false;
    }
    if (done) break;
    if (phase.save_freq > 0 && state_.step % phase.save_freq == 0 && state_.step < phase.total_steps)
      save_checkpoint(fmt::format("step_{}", state_.step));
  }
  return true;
}

observe::Metrics TrainingLoop::run_step(const Phase& phase, int64_t step) {
  context_.stages.reset();
  const auto begin = Clock::now();
  observe::Metrics metrics = phase.step(step, phase.total_steps);
  const auto times = context_.stages.times_over_ranks();
  const double seconds = seconds_since(begin);

  const double tokens = metrics["perf/total_num_tokens"];
  metrics["timing_s/step"] = seconds;
  if (metrics.contains("timing_s/wait_update")) {
    metrics["rollouter/idle_ratio"] = metrics["timing_s/wait_update"] / seconds;
    metrics["trainer/idle_ratio"] = metrics["timing_s/wait_prev_gen"] / seconds;
  }
  for (const auto& [stage, time] : times) {
    metrics["timing_s/" + stage] = time;
    seconds_[stage] += time;
    const double per = stage == "gen" ? metrics["rollout/generated_tokens"] : tokens;
    if (per > 0) metrics["timing_per_token_ms/" + stage] = 1000 * time / per;
  }
  if (metrics.contains("global_seqlen/max"))
    metrics["global_seqlen/minmax_diff"] = metrics["global_seqlen/max"] - metrics["global_seqlen/min"];
  metrics["perf/time_per_step"] = seconds;
  for (const auto& [stage, bytes] : most_over_ranks(context_.memory, context_.session.world())) {
    const std::string name = "memory_gb/" + stage;
    if (!observe::is_documented(name)) continue;  // of setting up
    metrics[name] = static_cast<double>(bytes) / (1 << 30);
    double& most = metrics["perf/max_memory_allocated_gb"];
    most = std::max(most, metrics[name]);
  }
  metrics["perf/throughput"] = tokens / seconds / context_.session.num_ranks();
  metrics["training/global_step"] = static_cast<double>(step + 1);
  if (phase.name == config_.algorithm.name) {
    tokens_ += tokens;
    token_seconds_ += seconds;
  }

  observe::StepLine line;
  line.phase = phase.name == "sft" ? "sft" : "step";
  line.step = step + 1;
  line.total = phase.total_steps;
  if (phase.name == "sft") {
    line.values = {{"loss", metrics["sft/loss"]}};
  } else if (dpo_) {
    line.values = {{"loss", metrics["dpo/loss"]}, {"margin", metrics["rewards/margins"]}};
  } else {
    line.values = {{"reward", metrics["critic/score/mean"]}};
    if (metrics.contains("rft/kept")) line.values.emplace_back("kept", metrics["rft/kept"]);
    if (metrics.contains("actor/kl_loss")) line.values.emplace_back("kl", metrics["actor/kl_loss"]);
  }
  line.stages = times;
  line.tokens_per_second = tokens / seconds;
  // A short SFT step every few milliseconds would bury the rest.
  if (phase.name != "sft" || (step + 1) % 10 == 0 || step + 1 == phase.total_steps)
    print(observe::step_line(line));
  return metrics;
}

double TrainingLoop::evaluate(const std::string& label, std::span<const data::Problem> problems,
                              bool announce) {
  const auto begin = Clock::now();
  double fraction = 0.0;
  evaluation::Asking asking;
  asking.max_response_length = config_.data.max_response_length;
  // Always alike, so that what differs between two evaluations is the model.
  asking.seed = context_.seed ^ 0x7e57ULL;
  asking.key = {state_.step, state_.phase + "/" + label};
  if (announce) {
    asking.n = config_.validation.n;
    asking.sampling.temperature = config_.validation.temperature;
    asking.sampling.top_k = config_.validation.top_k;
    asking.sampling.top_p = config_.validation.top_p;
  } else {
    asking.sampling.temperature = 0;
  }
  context_.stages.run("testing", [&] {
    const evaluation::Evaluation result = evaluation::evaluate(
        context_.session.world(), context_.session.roles().mesh(placement::Role::rollout),
        context_.models.engine.get(), context_.tokenizer, context_.scorer, problems, asking,
        announce ? sample_writer(label) : evaluation::SampleWriter{},
        announce ? model_scores(context_, problems) : evaluation::ModelScores{});
    fraction = rewards_alone() ? result.reward : result.fraction();
    if (!announce) return;
    for (const auto& [name, value] : result.metrics) evaluation_[name] = value;
    if (rewards_alone())
      return print(fmt::format("eval {}: reward {:.3f} ({} responses to {} held-out problems)", label,
                               result.reward, result.responses, result.problems));
    print(asking.n == 1
              ? fmt::format("eval {}: {:.1f} % right ({} of {} held-out problems)", label, 100 * fraction,
                            result.correct, result.problems)
              : fmt::format("eval {}: {:.1f} % right ({} of {} responses to {} held-out problems)", label,
                            100 * fraction, result.correct, result.responses, result.problems));
  });
  seconds_["testing"] += seconds_since(begin);
  evaluation_["timing_s/testing"] = seconds_since(begin);
  return fraction;
}

// samples/step_N.jsonl, N as in metrics.jsonl; begun anew where a run comes to that step again.
evaluation::SampleWriter TrainingLoop::sample_writer(const std::string& label) const {
  evaluation::SampleWriter samples;
  samples.most = config_.trainer.log_val_generations;
  if (!writes() || samples.most == 0) return samples;
  const fs::path folder = fs::path(config_.run_dir) / "samples";
  fs::create_directories(folder);
  const auto file = std::make_shared<std::ofstream>(folder / fmt::format("step_{}.jsonl", metric_step_));
  const std::string head = fmt::format("{{\"step\":{},\"evaluation\":\"{}\",", metric_step_, label);
  samples.write = [file, head](const std::string& lines) {
    for (size_t begin = 0; begin < lines.size();) {
      const size_t end = lines.find('\n', begin) + 1;
      *file << head << std::string_view(lines).substr(begin + 1, end - begin - 1);
      begin = end;
    }
    file->flush();
  };
  return samples;
}

double TrainingLoop::held_out_loss(const std::string& label) {
  const auto begin = Clock::now();
  double loss = 0.0;
  context_.stages.run("testing", [&] { loss = sft_->loss(context_.problems.val); });
  seconds_["testing"] += seconds_since(begin);
  evaluation_["timing_s/testing"] += seconds_since(begin);
  evaluation_["val/loss"] = loss;
  print(
      fmt::format("eval {}: loss {:.4f} on {} held-out examples", label, loss, context_.problems.val.size()));
  return loss;
}

// Evaluations tell no accuracy where a reward model alone judges.
bool TrainingLoop::rewards_alone() const {
  return context_.reward_input && context_.reward_input->alone;
}

void TrainingLoop::tell_pairs_apart(const std::string& label, const std::string& when) {
  const auto begin = Clock::now();
  context_.stages.run("testing", [&] {
    observe::Metrics pairs = dpo_->evaluate();
    const double apart = pairs["val/rewards/accuracies"], margin = pairs["val/rewards/margins"];
    print(fmt::format(
        "eval {}: margin {:.3f}, {:.1f} % of {} held-out pairs told apart, the chosen answer "
        "likelier in {:.1f} %",
        label, margin, 100 * apart, context_.problems.val.size(), 100 * pairs["val/logps/accuracies"]));
    evaluation_.merge(pairs);
    if (when.empty()) return;
    state_.results["eval_" + when + "_pairs"] = apart;
    state_.results["eval_" + when + "_margin"] = margin;
  });
  seconds_["testing"] += seconds_since(begin);
  evaluation_["timing_s/testing"] += seconds_since(begin);
}

std::span<const data::Problem> TrainingLoop::judged() const {
  if (context_.session.roles().rollout.empty()) return {};
  const auto& val = context_.problems.val;
  const auto end = std::find_if(val.begin(), val.end(), [](const data::Problem& p) { return !p.is_judged; });
  return {val.begin(), end};
}

// Accuracy where there are ground truths, and the loss where the run is supervised; kept under `when`.
void TrainingLoop::evaluate_held_out(const std::string& label, const std::string& when) {
  if (!judged().empty()) {
    const double accuracy = evaluate(label, judged(), true);
    if (!when.empty()) state_.results["eval_" + when + (rewards_alone() ? "_reward" : "")] = accuracy;
  }
  if (sft_ && !context_.problems.val.empty()) {
    const double loss = held_out_loss(label);
    if (!when.empty()) state_.results["val_loss_" + when] = loss;
  }
  if (dpo_ && !context_.problems.val.empty()) tell_pairs_apart(label, when);
}

void TrainingLoop::record_evaluation(const std::string& when, const std::string& label) {
  if (context_.problems.val.empty()) return;
  page_.set_phase("eval", 0);
  evaluate_held_out(label, when);
  for (auto& sink : sinks_) sink->write(metric_step_, evaluation_);
  evaluation_.clear();
}

void TrainingLoop::save_checkpoint(const std::string& name) {
  const auto begin = Clock::now();
  const std::string folder = (fs::path(config_.run_dir) / "checkpoints").string();
  state_.results["metric_step"] = static_cast<double>(metric_step_);
  if (rft_ && config_.rft.accumulate) state_.kept_samples = rft_->kept().to_lines();
  if (online_) state_.batches = online_->batches();
  context_.stages.run("save_checkpoint", [&] {
    if (writes()) fs::create_directories(folder);
    context_.session.world().barrier();
    save((fs::path(folder) / name).string(), state_, context_.models, context_.tokenizer, context_.session);
    if (writes()) checkpoint::prune(folder, config_.trainer.max_checkpoints_to_keep);
  });
  state_.batches.clear();  // the step has them
  seconds_["save_checkpoint"] += seconds_since(begin);
  evaluation_["timing_s/save_checkpoint"] = seconds_since(begin);
}

// Signals reach ranks at different times: all stop after the same step.
bool TrainingLoop::asked_to_stop() {
  return context_.session.world().all_reduce_scalar(stop_.load() ? 1.0 : 0.0, comm::ReduceOp::max) > 0;
}

void TrainingLoop::print(const std::string& line) const {
  if (!writes()) return;
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace trireme::steps
