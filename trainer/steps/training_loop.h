// A run from its first evaluation to its last checkpoint: phases (SFT, then the algorithm), evaluations,
// metrics, checkpoints, and what the user reads.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/observe/metrics.h"
#include "runtime/plan/rank_page.h"
#include "trainer/algorithms/algorithm_config.h"
#include "trainer/data/data_config.h"
#include "trainer/evaluation/evaluate.h"
#include "trainer/evaluation/evaluation_config.h"
#include "trainer/models/model_config.h"
#include "trainer/rollout/rollout_config.h"
#include "trainer/steps/rft_step.h"
#include "trainer/steps/run_state.h"
#include "trainer/steps/sft_step.h"
#include "trainer/steps/step_config.h"
#include "trainer/steps/step_context.h"

namespace trireme::steps {

class DpoStep;
class OnlineStep;

struct LoopConfig {
  std::string run_dir;
  models::ModelConfig model;
  data::DataConfig data;
  rollout::RolloutConfig rollout;
  evaluation::ValidationConfig validation;
  algorithms::AlgorithmConfig algorithm;
  ActorConfig actor;
  CriticConfig critic;
  SftConfig sft;
  RftConfig rft;
  TrainerConfig trainer;
};

class TrainingLoop {
 public:
  /// `stop` is set (by a signal) when the run shall end after the step under way, with a checkpoint.
  TrainingLoop(StepContext& context, LoopConfig config, plan::RankPage& page, const std::atomic<bool>& stop);
  ~TrainingLoop();

  /// Collective over: world. Returns ok, or checkpointed where `stop` ended it.
  ExitStatus run();

 private:
  using Step = std::function<observe::Metrics(int64_t step, int64_t total)>;
  struct Phase {
    std::string name;  // "sft", "rl"
    int64_t total_steps = 0;
    int64_t batch_size = 0;  // problems that a step takes; its last one took
    Step step;
    std::function<bool(int64_t done)>
        finished;  // ends the phase early; may be empty. Collective over: world.
    int64_t save_freq = -1, test_freq = -1;
  };

  std::optional<std::string> checkpoint_to_resume() const;
  void start();  // first weights, or a checkpoint's
  void begin_critic(const std::string& actor_folder);
  void begin_algorithm();
  void begin_online();
  bool run_phase(const Phase& phase);  // false: `stop` ended it
  bool warm_start();
  bool main_phase();
  observe::Metrics run_step(const Phase& phase, int64_t step);
  double evaluate(const std::string& label, std::span<const data::Problem> problems, bool announce);
  evaluation::SampleWriter sample_writer(const std::string& label) const;
  bool rewards_alone() const;
  void tell_pairs_apart(const std::string& label, const std::string& when);
  double held_out_loss(const std::string& label);
  void evaluate_held_out(const std::string& label, const std::string& when = "");
  void record_evaluation(const std::string& when, const std::string& label);
  std::span<const data::Problem> judged() const;
  void save_checkpoint(const std::string& name);
  void load_base();
  void make_optimizer(const optim::OptimConfig& config);
  bool asked_to_stop();
  void write_summary();
  void print(const std::string& line) const;
  bool writes() const { return context_.session.rank() == 0; }

  StepContext& context_;
  const LoopConfig config_;
  plan::RankPage& page_;
  const std::atomic<bool>& stop_;
  std::vector<std::unique_ptr<observe::MetricsSink>> sinks_;
  RunState state_;
  std::unique_ptr<SftStep> sft_;               // where the algorithm is supervised fine-tuning
  std::unique_ptr<RftStep> rft_;               // where it is rejection sampling
  std::string after_sft_;                      // the warm start's checkpoint; empty where there is none
  std::unique_ptr<OnlineStep> online_;         // where it learns from rewards, in its phase
  std::unique_ptr<DpoStep> dpo_;               // where that is the algorithm, from its begin on
  observe::Metrics evaluation_;                // of the last evaluation, to be written with the next step
  std::map<std::string, double> seconds_;      // by stage, over the run
  double tokens_ = 0.0, token_seconds_ = 0.0;  // of the main phase
  int64_t metric_step_ = 0;                    // steps of all phases
};

}  // namespace trireme::steps
