// `trireme-trainer`: the program that every rank runs, and what else needs tensors or tokenizers.
//
//   trireme-trainer run              one rank; its launcher says which (runtime/plan/rank_env.h)
//   trireme-trainer check CONFIG [key=value ...]   reads the data and the tokenizer and lists every mistake
//   trireme-trainer score FOLDER     log-probabilities of the texts on standard input, a JSON object a line
//   trireme-trainer docs metrics     the text of docs/metrics.md
//   trireme-trainer --version
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>

#include <ATen/Context.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/observe/metrics.h"
#include "runtime/pipeline/stage.h"
#include "runtime/plan/rank_env.h"
#include "runtime/plan/rank_page.h"
#include "runtime/session/session.h"
#include "trainer/config/load.h"
#include "trainer/data/problem_set.h"
#include "trainer/data/tokenizer.h"
#include "trainer/models/cpu_kernels.h"
#include "trainer/steps/score.h"
#include "trainer/steps/training_loop.h"

namespace trireme {
namespace {

std::atomic<bool> stop_asked{false};
void ask_to_stop(int) {
  stop_asked.store(true);
}

std::shared_ptr<const data::Tokenizer> make_tokenizer(const models::ModelConfig& model) {
  if (!model.tokenizer_path.empty()) return data::Tokenizer::from_folder(model.tokenizer_path);
  return model.path.empty() ? data::Tokenizer::bytes() : data::Tokenizer::from_folder(model.path);
}

models::DecoderShape make_shape(const models::ModelConfig& model, const data::Tokenizer& tokenizer) {
  if (!model.path.empty()) {
    const auto shape = models::DecoderShape::from_folder(model.path);
    if (tokenizer.vocab_size() > shape.vocab_size)
      fail(ErrorCode::invalid_config,
           "the tokenizer has {} ids, the model in {} only {}: set model.tokenizer_path to the model's own",
           tokenizer.vocab_size(), model.path, shape.vocab_size);
    return shape;
  }
  const models::RandomModelConfig& init = model.init;
  models::DecoderShape shape;
  shape.vocab_size = tokenizer.vocab_size();
  shape.hidden_size = init.hidden_size;
  shape.intermediate_size = init.intermediate_size;
  shape.num_hidden_layers = init.num_hidden_layers;
  shape.num_attention_heads = init.num_attention_heads;
  shape.num_key_value_heads = init.num_key_value_heads;
  shape.head_dim = init.hidden_size / init.num_attention_heads;
  shape.max_position_embeddings = init.max_position_embeddings;
  shape.rope_theta = init.rope_theta;
  shape.initializer_range = init.initializer_range;
  shape.tie_word_embeddings = init.tie_word_embeddings;
  return shape;
}

// Everything in the files that can be wrong without a tokenizer at hand, which takes longer to read.
data::ProblemSet read_problems(const config::RunConfig& config) {
  const bool learns_responses = config.algorithm.name == "sft" || config.sft.warm_start;
  auto problems =
      data::load_problems(config.data, learns_responses ? config.sft.response_key : "", config.run.seed);
  Mistakes mistakes;
  const auto reward = rewards::make_reward(config.reward);
  for (const auto* list : {&problems.train, &problems.val})
    for (const data::Problem& problem : *list)
      if (const auto mistake = reward->ground_truth_mistake(problem.answer);
          !mistake.empty() && mistakes.lines().size() < 20)
        mistakes.add(problem.where, mistake);
  mistakes.throw_if_any("these answers cannot be compared with a response:");
  return problems;
}

void check_lengths(data::ProblemSet& problems, const config::RunConfig& config,
                   const data::Tokenizer& tokenizer) {
  for (auto* list : {&problems.train, &problems.val})
    if (const int64_t dropped = list->empty() ? 0 : data::check_prompt_lengths(*list, tokenizer, config.data))
      log::info("{} prompts are longer than data.max_prompt_length = {} tokens and are left out", dropped,
                config.data.max_prompt_length);
}

placement::RoleRanks make_roles(const config::RunConfig& config, int num_ranks) {
  placement::RoleRanks roles;
  roles.actor = placement::parse_ranks(config.placement.actor, num_ranks, "placement.actor");
  roles.rollout = placement::parse_ranks(config.placement.rollout, num_ranks, "placement.rollout");
  if (config.algorithm.name != "sft" && (config.actor.loss.use_kl_loss || config.algorithm.use_kl_in_reward))
    roles.reference = placement::parse_ranks(config.placement.reference, num_ranks, "placement.reference");
  return roles;
}

// The GPU that the plan gave to this rank; by hand, one after the other.
at::Device choose_device(const std::string& wish, const plan::RankEnv& env) {
  const bool has_gpu = at::globalContext().hasCUDA();
  if (wish == "cuda" && !has_gpu)
    fail(
        ErrorCode::invalid_config,
        "run.device = \"cuda\", but this rank sees no GPU (or this is the cpu build: see trireme --version)");
  if (wish == "cpu" || !has_gpu) return at::kCPU;
  const c10::impl::VirtualGuardImpl gpus(c10::kCUDA);
  const int index = env.gpu >= 0 ? env.gpu : env.local_rank % std::max<int>(1, gpus.deviceCount());
  const at::Device device(at::kCUDA, static_cast<c10::DeviceIndex>(index));
  gpus.setDevice(device);
  return device;
}

ExitStatus run_rank(const plan::RankEnv& env, plan::RankPage& page) {
  const auto config =
      config::load((std::filesystem::path(env.run_dir) / "config.toml").string(), {}, config::Paths::ignore);
  log::start(log::level_from(config.run.log_level),
             env.num_ranks > 1 ? fmt::format("rank {}", env.rank) : "");
  const at::Device device = choose_device(config.run.device, env);
  page.set_phase("start", 0);

  session::Session session(env, make_roles(config, env.num_ranks),
                           device.is_cpu() ? comm::Device::cpu : comm::Device::gpu);
  pipeline::StageRunner stages(session.world(), [&](const std::string& stage, bool begins) {
    if (begins) page.set_stage(stage);
  });
  std::shared_ptr<const data::Tokenizer> tokenizer;
  data::ProblemSet problems;
  std::unique_ptr<rewards::Reward> reward;
  steps::RoleModels models;
  stages.run("setup", [&] {
    tokenizer = make_tokenizer(config.model);
    problems = read_problems(config);
    check_lengths(problems, config, *tokenizer);
    reward = rewards::make_reward(config.reward);
    models = steps::make_role_models(make_shape(config.model, *tokenizer),
                                     config.model.dtype == "fp32" ? at::kFloat : at::kBFloat16, device,
                                     session, config.rollout, tokenizer->stop_ids(),
                                     config.data.max_prompt_length + config.data.max_response_length);
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

// MKL picks its kernel by the number of rows unless told not to; then a row of a product has the same bits in
// any batch. Must come before the first product. The user's own setting stands.
void pin_matrix_products() {
  const std::string set = models::cpu_kernels().name;
  if (set == "avx512") ::setenv("MKL_CBWR", "AVX512,STRICT", 0);
  if (set == "avx2") ::setenv("MKL_CBWR", "AVX2,STRICT", 0);
}

int run() {
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

int check(const std::string& path, const std::vector<std::string>& overrides) {
  const auto config = config::load(path, overrides);
  auto problems = read_problems(config);
  const auto tokenizer = make_tokenizer(config.model);
  (void)make_shape(config.model, *tokenizer);
  check_lengths(problems, config, *tokenizer);
  return 0;
}

void print_versions() {
  std::printf("trireme-trainer %s\ntorch: %s\n%s\n", TRIREME_VERSION, TRIREME_TORCH_VERSION,
              session::versions().c_str());
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const auto is = [&](size_t i, const char* word) { return i < arguments.size() && arguments[i] == word; };
  try {
    if (is(0, "run") && arguments.size() == 1) return trireme::run();
    if (is(0, "check") && arguments.size() >= 2)
      return trireme::check(arguments[1], {arguments.begin() + 2, arguments.end()});
    if (is(0, "score") && arguments.size() == 2) {
      trireme::pin_matrix_products();
      trireme::steps::score_texts(arguments[1], std::cin, std::cout);
      return 0;
    }
    if (is(0, "docs") && is(1, "metrics") && arguments.size() == 2) {
      std::fputs(trireme::observe::metrics_markdown().c_str(), stdout);
      return 0;
    }
    if (is(0, "--version") && arguments.size() == 1) {
      trireme::print_versions();
      return 0;
    }
    std::fputs(
        "trireme-trainer is what `trireme run` starts on every rank. By hand:\n"
        "  trireme-trainer run | check CONFIG [key=value ...] | score FOLDER | docs metrics | --version\n",
        stderr);
    return static_cast<int>(trireme::ExitStatus::bad_input);
  } catch (const trireme::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(trireme::exit_status_of(error.code()));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(trireme::ExitStatus::failed);
  }
}
