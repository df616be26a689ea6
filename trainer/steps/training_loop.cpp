#include "trainer/steps/training_loop.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "runtime/base/files.h"
#include "runtime/base/log.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/observe/step_line.h"
#include "trainer/data/order.h"
#include "trainer/data/prompt_tokens.h"
#include "trainer/evaluation/evaluate.h"
#include "trainer/models/instruction_set.h"
#include "trainer/steps/online_step.h"
#include "trainer/steps/sft_step.h"
#include "trainer/weights/hf_checkpoint.h"

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

}  // namespace

TrainingLoop::TrainingLoop(StepContext& context, LoopConfig config, plan::RankPage& page,
                           const std::atomic<bool>& stop)
    : context_(context), config_(std::move(config)), page_(page), stop_(stop) {
  state_.seed = context.seed;
  state_.num_problems = static_cast<int64_t>(context.problems.train.size());
  state_.fingerprint = data::fingerprint(context.problems.train);
  if (context.models.device.is_cpu()) state_.kernels = models::name_of(models::instruction_set());
}

TrainingLoop::~TrainingLoop() = default;

ExitStatus TrainingLoop::run() {
  const auto begin = Clock::now();
  context_.stages.run("setup", [&] {
    start();
    if (!writes()) return;
    sinks_.push_back(observe::jsonl_sink((fs::path(config_.run_dir) / "metrics.jsonl").string()));
    sinks_.push_back(observe::tensorboard_sink((fs::path(config_.run_dir) / "tensorboard").string()));
  });
  if (config_.trainer.val_before_train && !state_.results.contains("eval_before"))
    record_evaluation("eval_before", "before");
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
  const bool random = config_.model.path.empty() || config_.model.random_weights;
  const double std = config_.model.init.embedding_std;
  if (models.actor_parameters) {
    if (random)
      models.actor_parameters->initialize(context_.seed, std);
    else
      load_masters(config_.model.path, models);
  }
  for (models::ParameterSet* parameters :
       {models.reference_parameters.get(), models.rollout_parameters.get()}) {
    if (!parameters) continue;
    if (random)
      parameters->initialize(context_.seed, models.shape, std);
    else
      weights::load(config_.model.path, models.shape, *parameters);
  }
  if (models.reference) models.reference->refresh();
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
  if (!folder) return;
  restore(*folder, state_, models, context_.session);
  if (!state_.reference.empty())
    load_reference((fs::path(*folder).parent_path() / state_.reference).string(), models);
  metric_step_ = static_cast<int64_t>(state_.results["metric_step"]);
  print(fmt::format("resuming from {} ({} step {})", *folder, state_.phase, state_.step));
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

void TrainingLoop::make_optimizer(const optim::OptimConfig& config) {
  if (context_.models.actor_parameters)
    context_.models.optimizer = std::make_unique<optim::AdamW>(*context_.models.actor_parameters, config);
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

  record_evaluation("eval_after_sft", "after sft");
  context_.stages.run("reference", [&] { copy_actor_to_reference(context_.models); });
  state_.phase = config_.algorithm.name;
  state_.step = 0;
  state_.taken = 0;
  state_.reference = "sft";
  context_.stages.run("optimizer", [&] { make_optimizer(config_.actor.optim); });
  save_checkpoint("sft");
  return true;
}

bool TrainingLoop::main_phase() {
  const auto& trainer = config_.trainer;
  Phase phase;
  phase.name = config_.algorithm.name;
  phase.save_freq = trainer.save_freq;
  phase.test_freq = trainer.test_freq;
  std::unique_ptr<SftStep> sft;
  std::unique_ptr<OnlineStep> online;
  if (config_.algorithm.name == "sft") {
    sft = std::make_unique<SftStep>(context_, config_.data, config_.sft,
                                    config_.actor.ppo_max_token_len_per_rank);
    phase.step = [&](int64_t step, int64_t total) { return sft->run(step, total, state_.taken); };
    phase.batch_size = config_.sft.train_batch_size;
    phase.total_steps = config_.sft.max_steps > 0
                            ? config_.sft.max_steps
                            : steps_of_epochs(trainer.total_epochs, state_, config_.sft.train_batch_size);
  } else {
    online = std::make_unique<OnlineStep>(context_, config_.data, config_.rollout, config_.algorithm,
                                          config_.actor);
    if (online->recomputes_old_log_probs())
      print(fmt::format("the actor computes old log-probabilities again (timing_s/old_log_prob): {}",
                        context_.models.inexact_because));
    if (state_.kl_coefficient) online->set_kl_coefficient(*state_.kl_coefficient);
    phase.step = [&](int64_t step, int64_t total) {
      observe::Metrics metrics = online->run(step, total, state_.taken);
      phase.batch_size = online->problems_taken();
      if (config_.algorithm.use_kl_in_reward && config_.algorithm.kl_ctrl.type == "adaptive")
        state_.kl_coefficient = online->kl_coefficient();
      return metrics;
    };
    phase.batch_size = config_.data.train_batch_size;
    phase.total_steps = trainer.total_training_steps > 0
                            ? trainer.total_training_steps
                            : steps_of_epochs(trainer.total_epochs, state_, config_.data.train_batch_size);
  }
  if (!run_phase(phase)) return false;
  record_evaluation("eval_after", "after");
  save_checkpoint(fmt::format("step_{}", state_.step));
  return true;
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
      evaluate(fmt::format("step {}", state_.step), context_.problems.val, true);
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
  for (const auto& [stage, time] : times) {
    metrics["timing_s/" + stage] = time;
    seconds_[stage] += time;
    const double per = stage == "gen" ? metrics["rollout/generated_tokens"] : tokens;
    if (per > 0) metrics["timing_per_token_ms/" + stage] = 1000 * time / per;
  }
  if (metrics.contains("global_seqlen/max"))
    metrics["global_seqlen/minmax_diff"] = metrics["global_seqlen/max"] - metrics["global_seqlen/min"];
  metrics["perf/time_per_step"] = seconds;
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
  } else {
    line.values = {{"reward", metrics["critic/score/mean"]}};
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
  context_.stages.run("testing", [&] {
    const evaluation::Evaluation result = evaluation::evaluate(
        context_.session.world(), context_.session.roles().mesh(placement::Role::rollout),
        context_.models.engine.get(), context_.tokenizer, context_.reward, problems,
        config_.data.max_response_length);
    fraction = result.all.fraction();
    if (!announce) return;
    for (const auto& [source, accuracy] : result.by_source) {
      evaluation_[fmt::format("val-core/{}/acc/mean@1", source)] = accuracy.fraction();
      evaluation_[fmt::format("val-core/{}/reward/mean@1", source)] =
          accuracy.score / static_cast<double>(accuracy.problems);
    }
    print(fmt::format("eval {}: {:.1f} % right ({} of {} held-out problems)", label, 100 * fraction,
                      result.all.correct, result.all.problems));
  });
  seconds_["testing"] += seconds_since(begin);
  evaluation_["timing_s/testing"] = seconds_since(begin);
  return fraction;
}

void TrainingLoop::record_evaluation(const std::string& key, const std::string& label) {
  if (context_.problems.val.empty()) return;
  page_.set_phase("eval", 0);
  state_.results[key] = evaluate(label, context_.problems.val, true);
  for (auto& sink : sinks_) sink->write(metric_step_, evaluation_);
  evaluation_.clear();
}

void TrainingLoop::save_checkpoint(const std::string& name) {
  const auto begin = Clock::now();
  const std::string folder = (fs::path(config_.run_dir) / "checkpoints").string();
  state_.results["metric_step"] = static_cast<double>(metric_step_);
  context_.stages.run("save_checkpoint", [&] {
    if (writes()) fs::create_directories(folder);
    context_.session.world().barrier();
    save((fs::path(folder) / name).string(), state_, context_.models, context_.tokenizer, context_.session);
    if (writes()) checkpoint::prune(folder, config_.trainer.max_checkpoints_to_keep);
  });
  seconds_["save_checkpoint"] += seconds_since(begin);
  evaluation_["timing_s/save_checkpoint"] = seconds_since(begin);
}

// Signals reach ranks at different times: all stop after the same step.
bool TrainingLoop::asked_to_stop() {
  return context_.session.world().all_reduce_scalar(stop_.load() ? 1.0 : 0.0, comm::ReduceOp::max) > 0;
}

void TrainingLoop::write_summary() {
  if (!writes()) return;
  nlohmann::ordered_json summary;
  for (const char* key : {"eval_before", "eval_after_sft", "eval_after"})
    if (state_.results.contains(key)) summary[key] = state_.results.at(key);
  summary["steps"] = state_.step;
  summary["ranks"] = context_.session.num_ranks();
  summary["tokens_per_second"] = token_seconds_ > 0 ? tokens_ / token_seconds_ : 0.0;
  summary["seconds_total"] = state_.results["seconds_total"];
  summary["seconds"] = seconds_;
  files::write_atomically((fs::path(config_.run_dir) / "summary.json").string(), summary.dump(2) + "\n");

  print("");
  for (const auto& [key, label] :
       {std::pair{"eval_before", "accuracy before"}, std::pair{"eval_after_sft", "accuracy after SFT"},
        std::pair{"eval_after", "accuracy after"}})
    if (state_.results.contains(key))
      print(fmt::format("{:<20}{:>6.1f} %  of {} held-out problems", label, 100 * state_.results.at(key),
                        context_.problems.val.size()));
  if (token_seconds_ > 0)  // a run that was complete already made no step
    print(fmt::format("{:<20}{:>8} tok/s", "throughput",
                      observe::with_thousands(summary["tokens_per_second"].get<double>())));
  std::vector<std::pair<double, std::string>> parts;
  for (const auto& [stage, seconds] : seconds_) parts.emplace_back(seconds, stage);
  std::sort(parts.rbegin(), parts.rend());
  std::string where;
  for (const auto& [seconds, stage] : parts)
    if (seconds >= 0.1)
      where += fmt::format("{}{} {:.1f} s", where.empty() ? "" : " | ", observe::stage_label(stage), seconds);
  if (!where.empty()) print(fmt::format("{:<20}{}", "time", where));
  print(fmt::format("{:<20}{}", "run folder", config_.run_dir));
}

void TrainingLoop::print(const std::string& line) const {
  if (!writes()) return;
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace trireme::steps
