// `trireme-trainer run`: one rank of a run, as its launcher's environment says.
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include <c10/util/Exception.h>

#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/pipeline/stage.h"
#include "runtime/plan/rank_env.h"
#include "runtime/plan/rank_page.h"
#include "runtime/session/session.h"
#include "trainer/commands/commands.h"
#include "trainer/commands/compute.h"
#include "trainer/commands/run_inputs.h"
#include "trainer/config/load.h"
#include "trainer/config/roles.h"
#include "trainer/steps/training_loop.h"

namespace trireme::commands {
namespace {

std::atomic<bool> stop_asked{false};
void ask_to_stop(int) {
  stop_asked.store(true);
}

// Which way rows find each other's keys, where ranks share out sequences.
void tell_context(const models::Decoder& actor) {
  const models::ContextParallel& context = actor.context_parallel();
  const models::AttentionDims& dims = actor.attention_dims();
  if (!context.is_split()) return;
  if (const auto share = models::head_share(dims, context.size()))
    log::info("sequences are shared out over {} ranks, attention by heads: {} of {} on each", context.size(),
              share->heads, dims.heads);
  else
    log::info(
        "sequences are shared out over {0} ranks, attention by a ring: {1} heads over {2} kv heads are not",
        context.size(), dims.heads, dims.kv_heads);
}

// With the lengths that it is measured by.
rewards::RewardConfig reward_of(const config::RunConfig& config) {
  rewards::RewardConfig reward = config.reward;
  if (reward.cosine.max_tokens == 0) reward.cosine.max_tokens = config.data.max_response_length;
  return reward;
}

memory::OffloadConfig offload_of(const config::RunConfig& config, const std::string& run_dir) {
  memory::OffloadConfig offload = config.offload;
  if (offload.folder.empty()) offload.folder = run_dir + "/offload";
  return offload;
}

ExitStatus run_rank(const plan::RankEnv& env, plan::RankPage& page) {
  const auto config =
      config::load((std::filesystem::path(env.run_dir) / "config.toml").string(), {}, config::Paths::ignore);
  log::start(log::level_from(config.run.log_level),
             env.num_ranks > 1 ? fmt::format("rank {}", env.rank) : "");
  const at::Device device = choose_device(config.run.device, env);
  page.set_phase("start", 0);

  session::Session session(env, config::roles_of(config, env.num_ranks),
                           device.is_cpu() ? comm::Device::cpu : comm::Device::gpu);
  memory::StageMemory memory(device);
  pipeline::StageRunner stages(session.world(), [&](const std::string& stage, bool begins) {
    if (begins) page.set_stage(stage);
    begins ? memory.begin() : memory.end(stage);
  });
  agree_on_instruction_set(stages, session.world());
  std::shared_ptr<const text::Tokenizer> tokenizer;
  data::ProblemSet problems;
  std::unique_ptr<rewards::Reward> rule;
  std::unique_ptr<rewards::Scorer> scorer;
  steps::RoleModels models;
  std::optional<steps::RewardModelInput> reward_input;
  stages.run("setup", [&] {
    rule = rewards::make_reward(config.reward);
    // First, so that its processes start while the rest is read.
    if (session.has(placement::Role::rollout) && session.speaks_for_replica(placement::Role::rollout))
      scorer = rewards::make_scorer(reward_of(config), *rule,
                                    {.sign_of_life = [&page] { page.tick(); },
                                     .journal = env.run_dir + "/journal/rewards",
                                     .writer = fmt::format("rank_{}", env.rank)});
    tokenizer = make_tokenizer(config.model);
    problems = read_problems(config);
    encode_prompts(problems, config, *tokenizer);
    encode_learned(problems, config, *tokenizer);
    models = steps::make_role_models(make_shape(config.model, *tokenizer),
                                     config.model.dtype == "fp32" ? at::kFloat : at::kBFloat16, device,
                                     session, config.parallel.actor, config.rollout, tokenizer->stop_ids(),
                                     config::max_model_len(config), offload_of(config, env.run_dir));
    if (models.actor)
      models.actor->recompute_blocks(config.model.enable_gradient_checkpointing, models.shelf.get());
    if (config::has_critic(config)) {
      steps::add_critic(models, make_critic_shape(config, models.shape, *tokenizer), session,
                        config.parallel.critic, config.critic.optim);
      if (models.critic)
        models.critic->recompute_blocks(config.model.enable_gradient_checkpointing, models.shelf.get());
    }
    if (config::has_reward_model(config)) {
      const auto shape = make_reward_model_shape(config);
      std::string said;
      reward_input = make_reward_input(config, shape, *tokenizer, said);
      steps::add_reward_model(models, shape, config.reward_model.path, session);
      if (env.rank == session.roles().reward_model.front()) log::info("{}", said);
    }
    if (models.actor && env.rank == session.roles().actor.front()) tell_context(*models.actor);
    models.generation_config = read_generation_config(config.model);
    if (models.engine) {
      models.engine->set_sign_of_life([&page] { page.tick(); });
      models.engine->set_token_text([&](int32_t id) { return tokenizer->bytes_of_token(id, false); });
      const rollout::KvBudget& kv = models.engine->kv_budget();
      if (env.rank == session.roles().rollout.front())
        log::info("{}{}", kv.text(),
                  kv.limited_by_memory ? " (limited by rollout.gpu_memory_utilization)" : "");
    }
    if (scorer) scorer->wait_until_ready();
  });
  steps::StepContext context{session,      stages,   models,          *tokenizer,
                             scorer.get(), problems, config.run.seed, reward_input ? &*reward_input : nullptr,
                             &memory};
  steps::TrainingLoop loop(
      context,
      {env.run_dir, config.model, config.data, config.rollout, config.validation, config.algorithm,
       config.actor, config.critic, config.sft, config.rft, config.trainer},
      page, stop_asked);
  return loop.run();
}

// A rank's error is told once, by the rank where it happened; the others only say that they follow.
[[noreturn]] void end_rank(plan::RankPage& page, ErrorCode code, const std::string& message) {
  if (code == ErrorCode::peer_failed)
    log::debug("{}", message);
  else
    log::error("{}", message);
  page.set_error(code, message);
  std::fflush(nullptr);
  // No destructors: other ranks may sit in a collective that will never be matched.
  ::_exit(static_cast<int>(exit_status_of(code)));
}

}  // namespace

int run(const Arguments&) {
  pin_matrix_products();
  sigset_t stop_signals;
  sigemptyset(&stop_signals);
  for (const int signal : {SIGTERM, SIGUSR1}) {
    std::signal(signal, ask_to_stop);
    sigaddset(&stop_signals, signal);
  }
  ::pthread_sigmask(SIG_UNBLOCK, &stop_signals, nullptr);  // LaunchPlan::holds_stop
  std::signal(SIGINT, SIG_IGN);  // the launcher decides what Ctrl-C means
  std::signal(SIGPIPE, SIG_IGN);
  const auto env = plan::RankEnv::from_environment();
  auto page = plan::RankPage::open(env.page);
  try {
    return static_cast<int>(run_rank(env, page));
  } catch (const Error& error) {
    end_rank(page, error.code(), error.what());
  } catch (const c10::Error& error) {
    end_rank(page, ErrorCode::internal, error.what_without_backtrace());
  } catch (const std::exception& error) {
    end_rank(page, ErrorCode::internal, error.what());
  }
}

}  // namespace trireme::commands
