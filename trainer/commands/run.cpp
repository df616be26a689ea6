// `trireme-trainer run`: one rank of a run, as its launcher's environment says.
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>

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

ExitStatus run_rank(const plan::RankEnv& env, plan::RankPage& page) {
  const auto config =
      config::load((std::filesystem::path(env.run_dir) / "config.toml").string(), {}, config::Paths::ignore);
  log::start(log::level_from(config.run.log_level),
             env.num_ranks > 1 ? fmt::format("rank {}", env.rank) : "");
  const at::Device device = choose_device(config.run.device, env);
  page.set_phase("start", 0);

  session::Session session(env, config::roles_of(config, env.num_ranks),
                           device.is_cpu() ? comm::Device::cpu : comm::Device::gpu);
  pipeline::StageRunner stages(session.world(), [&](const std::string& stage, bool begins) {
    if (begins) page.set_stage(stage);
  });
  agree_on_instruction_set(stages, session.world());
  std::shared_ptr<const text::Tokenizer> tokenizer;
  data::ProblemSet problems;
  std::unique_ptr<rewards::Reward> reward;
  steps::RoleModels models;
  stages.run("setup", [&] {
    tokenizer = make_tokenizer(config.model);
    problems = read_problems(config);
    encode_prompts(problems, config, *tokenizer);
    reward = rewards::make_reward(config.reward);
    models = steps::make_role_models(make_shape(config.model, *tokenizer),
                                     config.model.dtype == "fp32" ? at::kFloat : at::kBFloat16, device,
                                     session, config.parallel.actor, config.rollout, tokenizer->stop_ids(),
                                     config::max_model_len(config));
    if (models.actor) models.actor->recompute_blocks(config.model.enable_gradient_checkpointing);
    models.generation_config = read_generation_config(config.model);
    if (models.engine) {
      models.engine->set_token_text([&](int32_t id) { return tokenizer->bytes_of_token(id, false); });
      const rollout::KvBudget& kv = models.engine->kv_budget();
      if (env.rank == session.roles().rollout.front())
        log::info("{}{}", kv.text(),
                  kv.limited_by_memory ? " (limited by rollout.gpu_memory_utilization)" : "");
    }
  });
  steps::StepContext context{session, stages, models, *tokenizer, *reward, problems, config.run.seed};
  steps::TrainingLoop loop(context,
                           {env.run_dir, config.model, config.data, config.rollout, config.algorithm,
                            config.actor, config.sft, config.trainer},
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
  for (const int signal : {SIGTERM, SIGUSR1}) std::signal(signal, ask_to_stop);
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
